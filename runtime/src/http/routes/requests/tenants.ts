/** Bodies of requests about tenants. */
import { Type } from 'typebox'

export const TenantRequest = Type.Object(
  {
    slug: Type.String({ maxLength: 64 }),
    display_name: Type.String({ minLength: 1, maxLength: 200 }),
    tier: Type.Union([Type.Literal('free'), Type.Literal('standard'), Type.Literal('enterprise')]),
  },
  { additionalProperties: false },
)
