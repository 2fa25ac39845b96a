/** Bodies of requests about products. */
import { Type } from 'typebox'

export const ProductRequest = Type.Object(
  {
    name: Type.String({ maxLength: 500 }),
    namespace: Type.String({ maxLength: 500 }),
    archetype: Type.Union([
      Type.Literal('source_aligned'),
      Type.Literal('aggregate'),
      Type.Literal('consumer_aligned'),
    ]),
    description: Type.Optional(Type.String({ maxLength: 10_000 })),
  },
  { additionalProperties: false },
)

export const ProductChangeRequest = Type.Object(
  {
    description: Type.Optional(Type.String({ maxLength: 10_000 })),
    archetype: Type.Optional(ProductRequest.properties.archetype),
  },
  { additionalProperties: false, minProperties: 1 },
)
