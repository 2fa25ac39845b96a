/** Rights, as answers have them. */

import { Type } from 'typebox'
import { nullable, oneOf, text, time } from './parts.ts'

export const Grant = Type.Object(
  {
    id: text(),
    subject: Type.Object({ user: Type.Optional(text()), team: Type.Optional(text()) }),
    issuer: nullable(text('Whose user it is. Null: of a team.')),
    may: oneOf(['read', 'unmask']),
    classes: Type.Array(text()),
    grantable: Type.Array(text(), { description: 'What of it the subject may grant on: classes, or "read".' }),
    granted_by: text(),
    created_at: time(),
  },
  { $id: 'Grant' },
)

export const EndedGrants = Type.Object(
  {
    ended: Type.Array(
      Type.Object({
        id: text(),
        product_id: nullable(text('Null: of raw tables.')),
        connection_id: nullable(text('Null: of a product.')),
        subject: Type.Object({ user: Type.Optional(text()), team: Type.Optional(text()) }),
        whole: Type.Boolean({ description: 'False: it goes on with less, because others had given it, too.' }),
        classes: Type.Array(text(), { description: 'Of one that goes on, what it unmasks still.' }),
      }),
      { description: 'Grants that rested on it, all the way.' },
    ),
  },
  { $id: 'EndedGrants' },
)

export const RawGrant = Type.Object(
  {
    id: text(),
    subject: Type.Object({ user: Type.Optional(text()), team: Type.Optional(text()) }),
    issuer: nullable(text('Whose user it is. Null: of a team.')),
    table: nullable(text('Null: every table of the connection.')),
    grantable: Type.Boolean({ description: 'Whether the subject may grant it on.' }),
    granted_by: text(),
    created_at: time(),
  },
  { $id: 'RawGrant' },
)
