/** Bodies of requests about rights. */
import { Type } from 'typebox'

export const GrantRequest = Type.Object(
  {
    subject: Type.Object(
      {
        user: Type.Optional(Type.String({ minLength: 1, maxLength: 255 })),
        team: Type.Optional(Type.String({ minLength: 1, maxLength: 255 })),
      },
      { additionalProperties: false },
    ),
    issuer: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 2000,
        description: 'Of the user: the `iss` of its tokens. Absent: your own issuer.',
      }),
    ),
    may: Type.Union([Type.Literal('read'), Type.Literal('unmask')]),
    classes: Type.Optional(Type.Array(Type.String({ minLength: 1, maxLength: 100 }), { maxItems: 100 })),
    grantable: Type.Optional(
      Type.Boolean({ default: false, description: 'Whether the subject may grant the same on to others.' }),
    ),
  },
  { additionalProperties: false },
)

export const RawGrantRequest = Type.Object(
  {
    subject: GrantRequest.properties.subject,
    issuer: GrantRequest.properties.issuer,
    table: Type.Optional(
      Type.String({ minLength: 1, maxLength: 500, description: 'As discovered: schema.table. Absent: every table.' }),
    ),
    grantable: GrantRequest.properties.grantable,
  },
  { additionalProperties: false },
)
