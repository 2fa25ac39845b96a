/** Products, as answers have them. */

import { Type } from 'typebox'
import { CONTRACT_WORDS } from '../../../manifest/files/schema-contract.ts'
import { NOTICE_KINDS } from '../../../operations/products/product-notices.ts'
import { scheduleFields } from './connections.ts'
import { anything, count, Failure, nullable, oneOf, text, time } from './parts.ts'
import { quality, Snapshot } from './quality.ts'

const productFields = {
  id: text(),
  tenant_id: text(),
  name: text(),
  namespace: text(),
  archetype: oneOf(['source_aligned', 'aggregate', 'consumer_aligned']),
  description: text(),
  classification: oneOf(['public', 'internal', 'confidential', 'restricted']),
  status: oneOf(['draft', 'ready', 'deployed', 'degraded', 'retired']),
  current_version: nullable(text()),
  paused: nullable(
    Type.Object(
      {
        reason: oneOf(['rollback', 'registry_outdated']),
        version: text('That it went back to; or that made what the registry does not know.'),
        since: time(),
      },
      { description: 'Why it keeps its content while its connections are synced; null: it follows them.' },
    ),
  ),
  created_at: time(),
  updated_at: time(),
}

export const Product = Type.Object(productFields, { $id: 'Product' })

export const ListedProduct = Type.Object(
  {
    ...productFields,
    ...scheduleFields,
    notices: Type.Array(oneOf(NOTICE_KINDS), {
      description:
        'What should be done about the version in service, or the bucket of its rows; the product itself says more.',
    }),
  },
  { $id: 'ListedProduct' },
)

export const deleteMode = () =>
  Type.Union([oneOf(['implied', 'key_sweep', 'unseen', 'log']), Type.Null()], {
    description: 'How rows that are gone from the source are found. Implied: all are read.',
  })

const contractWord = oneOf(CONTRACT_WORDS)

/** How an input is read. */
export const InputRead = Type.Object({
  input: text(),
  connection: Type.Optional(text()),
  table: Type.Optional(text()),
  product: Type.Optional(text('Of an input that is a product, in place of connection and table: namespace.name.')),
  mode: nullable(text('Null: it is not known yet, or no sync reads it.')),
  mode_reason: nullable(text()),
  not_by_log: Type.Optional(
    text(
      'Of a plan: why an input that names no mode is not read by the log of its source (mode cdc), and what would let it. Absent: nothing is in the way, or the source has no log.',
    ),
  ),
  deletes: deleteMode(),
  deletes_reason: nullable(text('Why they are left unseen.')),
  read_at: nullable(time()),
  schema_contract: Type.Optional(
    Type.Object(
      { tables: contractWord, columns: contractWord, types: contractWord, nullability: contractWord },
      { description: 'What becomes of the product when its source changes. Absent of an input that is a product.' },
    ),
  ),
})

export const ProductDetail = Type.Object(
  {
    ...productFields,
    ...scheduleFields,
    owner: Type.Object({ team: nullable(text()), email: nullable(text()) }),
    tags: Type.Array(text()),
    schema: Type.Array(
      Type.Object({
        name: text(),
        type: text(),
        role: nullable(text()),
        classification: text(),
        nullable: Type.Boolean(),
        description: Type.Optional(nullable(text())),
        mask: nullable(
          Type.Union(
            ['hash', 'redact', 'partial', 'null', 'omit'].map((name) => Type.Literal(name)),
            {
              description:
                'How it is masked for you; omit: you are not shown the column. Null: it is not, or you may not read the product.',
            },
          ),
        ),
      }),
    ),
    readable: Type.Boolean({ description: 'Whether there is a version in service whose rows you may read.' }),
    endpoints: Type.Array(
      Type.Object({
        type: text(),
        description: Type.Optional(nullable(text())),
        config: anything(),
        state: oneOf(['ok', 'pending', 'failed']),
        epoch: nullable(count('Null for who may not read the product, as are the fields after it.')),
        behind: nullable(Type.Boolean()),
        error: nullable(Failure),
        rows_left_out: nullable(
          count(
            'Rows that the endpoint cannot serve: without a time, in a timeseries. Null for who may not read the product or may not see that column, and until the version in service has been applied.',
          ),
        ),
      }),
    ),
    change_topics: Type.Array(
      Type.Object({
        topic: text(),
        variant: oneOf(['masked', 'clear']),
        state: oneOf(['ok', 'pending', 'failed', 'refused']),
        reason: nullable(text()),
        epoch: nullable(count()),
        error: nullable(Failure),
      }),
    ),
    dashboards: nullable(
      Type.Object({
        state: oneOf(['ok', 'pending', 'failed']),
        error: nullable(Failure),
        links: Type.Array(Type.Object({ variant: text(), url: text() })),
      }),
    ),
    quality: nullable(Type.Object({ score: nullable(Type.Number()), ...quality })),
    freshness: Type.Object({
      read_at: nullable(
        Type.String({
          format: 'date-time',
          description:
            'Since when the rows of the newest epoch are: when the first of its inputs was read from its source. Null without an epoch, and for who may not read the product.',
        }),
      ),
      age_s: nullable(Type.Number({ description: 'Since then; null where that is.' })),
      objective_s: nullable(Type.Number()),
      met: nullable(Type.Boolean()),
    }),
    availability: Type.Object({
      objective_percent: nullable(Type.Number({ description: 'As product.yaml says; it is not measured here.' })),
    }),
    content: nullable(
      Type.Object(
        {
          write_mode: text(),
          keeps_missing: Type.Boolean(),
          note: text(),
          one_moment: nullable(
            Type.Boolean({ description: 'Whether tables of one connection are of one instant; null: it reads one.' }),
          ),
        },
        {
          description:
            'What becomes of former rows, and which of its inputs’ they are. Null: no version is in service.',
        },
      ),
    ),
    reads: Type.Array(InputRead, { description: 'How each input was read last, for who may read the product.' }),
    notices: Type.Array(
      Type.Object({
        kind: oneOf(NOTICE_KINDS),
        message: text(),
        remedy: text(),
        columns: Type.Array(text()),
        blocked: Type.Boolean({ description: 'Whether readers without clearance are refused for it.' }),
      }),
      { description: 'What should be done about the version in service, or the bucket of its rows.' },
    ),
    lineage: Type.Object({
      inputs: Type.Array(
        Type.Object({
          name: text(),
          connection: Type.Optional(text()),
          table: Type.Optional(text()),
          product: Type.Optional(text('Of an input that is a product: namespace.name.')),
        }),
      ),
      downstream: Type.Array(text(), { description: 'Products in service that are made of this one: namespace.name.' }),
    }),
    expectations: Type.Array(
      Type.Object({
        input: text('The alias.'),
        product: text('namespace.name'),
        name: text(),
        severity: oneOf(['error', 'warn']),
        may: nullable(oneOf(['enforce', 'warn', 'ignore'])),
        last: nullable(
          Type.Object(
            {
              passed: Type.Boolean(),
              violations: nullable(count('Null: it could not be run.')),
              total: nullable(count()),
              state: oneOf(['committed', 'blocked']),
              epoch: nullable(count('Of that product; null: nothing was published.')),
              committed_at: nullable(time()),
            },
            {
              description:
                'What came of it, held against the newest rows of that product. Null: they have not been looked at, or you may not see what it looks at.',
            },
          ),
        ),
      }),
      {
        description:
          'What the version in service expects of inputs that are products. `may` is what these let it do: `downstream_expectations` of their quality.yaml.',
      },
    ),
    versions: Type.Array(Type.Object({ version: text(), digest: text(), deployed_by: text(), deployed_at: time() })),
    preview: nullable(
      Type.Object(
        {
          product: text('As it is read: namespace.name@preview.'),
          state: oneOf(['served', 'ending']),
          version: text(),
          digest: text(),
          made_by: text(),
          made_at: time(),
          ends_at: time(),
          epoch: nullable(Type.Integer()),
        },
        { description: 'A version beside the one in service, for developers; null: there is none.' },
      ),
    ),
    last_materialization: nullable(Snapshot),
  },
  { $id: 'ProductDetail' },
)
