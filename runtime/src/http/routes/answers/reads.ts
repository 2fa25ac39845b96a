/** Rows, as answers have them. */

import { Type } from 'typebox'
import { anything, count, nullable, text, time } from './parts.ts'

const CONSISTENT = 'Whether all of it is known to rest on the same rows of every table and product that it is made of.'

export const QueryResult = Type.Object(
  {
    columns: Type.Array(Type.Object({ name: text(), type: text(), masked: Type.Boolean() })),
    rows: Type.Array(Type.Array(Type.Unknown()), {
      description:
        'Values as all answers tell them: whole numbers beyond ±(2^53−1), decimals, NaN and infinities as strings; other numbers by digits that give the same one back; dates `YYYY-MM-DD`, timestamps `YYYY-MM-DDTHH:MM:SS.ffffff`, with `Z` where they have a zone; bytes in base64; documents to the letter.',
    }),
    row_count: count(),
    truncated: Type.Boolean(),
    meta: Type.Object({
      engine: text(),
      elapsed_ms: count(),
      snapshots: Type.Record(Type.String(), Type.String()),
      epochs: Type.Record(Type.String(), count(), { description: 'By product.' }),
      consistent: Type.Boolean({ description: CONSISTENT }),
      freshness: Type.Record(Type.String(), Type.Object({ read_at: time(), age_s: Type.Number() }), {
        description:
          'By product: since when its rows are, which is when the first of its inputs was read from its source.',
      }),
      columns_without_values: Type.Optional(
        Type.Record(Type.String(), Type.Array(Type.String()), {
          description:
            'By raw table, columns that are null in rows whose value could not be carried. The quarantine of the connection lists the values.',
        }),
      ),
    }),
  },
  { $id: 'QueryResult' },
)

const ReadMeta = Type.Object({
  product: text(),
  namespace: text(),
  version: text(),
  epoch: count(),
  snapshot_id: text(),
  as_of: text('When the epoch was committed.'),
  masked_columns: Type.Array(text()),
  store: text(),
  ttl_remaining_s: Type.Optional(Type.Number()),
  freshness: Type.Object(
    {
      read_at: time(),
      age_s: Type.Optional(
        Type.Number({ description: 'Of answers without an ETag; with one, the header X-Sluice-Freshness says it.' }),
      ),
    },
    {
      description:
        'Since when the rows are: when the first of the inputs that they were made of was read from its source.',
    },
  ),
})

export const ReadResult = Type.Object(
  {
    data: Type.Array(anything()),
    meta: ReadMeta,
    next_cursor: nullable(text()),
  },
  { $id: 'ReadResult' },
)

export const ReadKeysResult = Type.Object(
  {
    data: Type.Array(
      Type.Object({
        product: text('As it was asked for.'),
        store: text(),
        rows: Type.Optional(Type.Array(nullable(anything()), { description: 'In the order of the keys.' })),
        meta: Type.Optional(ReadMeta),
        error: Type.Optional(
          Type.Record(Type.String(), Type.Unknown(), {
            description: 'The problem that a read of its own is answered with.',
          }),
        ),
      }),
      { description: 'In the order of the items: rows and meta, or an error.' },
    ),
    meta: Type.Object({
      consistent: Type.Boolean({ description: `${CONSISTENT} Items that were not read do not count.` }),
    }),
  },
  { $id: 'ReadKeysResult' },
)
