import { Type } from 'typebox'
import { closed, duration, header, MANIFEST_LIMITS, oneOf, text } from './shape.ts'

export const ARCHETYPES = ['source_aligned', 'aggregate', 'consumer_aligned'] as const
export const CLASSIFICATION_LEVELS = ['public', 'internal', 'confidential', 'restricted'] as const

const subjects = (description: string) =>
  Type.Array(Type.String({ minLength: 1, maxLength: MANIFEST_LIMITS.nameLength }), {
    description,
    maxItems: 500,
    uniqueItems: true,
  })

export const ProductFile = closed(
  {
    ...header('Product'),
    name: text('The table in every store, and the {name} of read paths.', MANIFEST_LIMITS.nameLength),
    namespace: text('The domain: the schema or database in every store.', MANIFEST_LIMITS.nameLength),
    archetype: oneOf(ARCHETYPES, 'Where the product stands between sources and consumers.'),
    description: Type.Optional(Type.String({ maxLength: MANIFEST_LIMITS.descriptionLength })),
    classification: Type.Optional(oneOf(CLASSIFICATION_LEVELS, 'Who may read the product. Default: internal.')),
    owner: Type.Optional(
      closed({
        team: Type.Optional(text('The team that answers for the product.', MANIFEST_LIMITS.nameLength)),
        email: Type.Optional(
          Type.String({ pattern: '^[^@\\s]+@[^@\\s]+$', maxLength: 320, 'x-expected': 'an e-mail address' }),
        ),
      }),
    ),
    tags: Type.Optional(
      Type.Array(Type.String({ minLength: 1, maxLength: 100 }), { maxItems: 100, uniqueItems: true }),
    ),
    access: Type.Optional(
      closed(
        {
          teams: Type.Optional(subjects('Teams that are granted reading at the first deploy.')),
          users: Type.Optional(
            subjects('Users that are granted reading at the first deploy: of the issuer of who deploys.'),
          ),
        },
        { description: 'The initial grants.' },
      ),
    ),
    slo: Type.Optional(
      closed({
        freshness: Type.Optional(
          duration(
            'How old rows may be: since the first of the inputs that they were made of was read from its source.',
          ),
        ),
        availability: Type.Optional(
          Type.Number({ description: 'Percent of the time that reads succeed: 99.9.', minimum: 0, maximum: 100 }),
        ),
      }),
    ),
  },
  { title: 'product.yaml' },
)

export type ProductFile = Type.Static<typeof ProductFile>
