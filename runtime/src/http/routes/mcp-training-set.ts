/** What an agent sends for a training set: REST's request of fewer labels, told in fewer words. */
import { Type } from 'typebox'
import { MAX_ROWS } from '../../operations/agents/ask-rows.ts'
import { MAX_FEATURES, MAX_KEY_COLUMNS } from '../../operations/queries/training-set.ts'

const closed = { additionalProperties: false } as const
const Column = Type.String({ maxLength: 200 })
const Columns = Type.Optional(Type.Array(Column, { minItems: 1, maxItems: 1000 }))
const Product = Type.String({ minLength: 1, maxLength: 500 })
const Value = Type.Union([Type.String({ maxLength: 4096 }), Type.Number(), Type.Boolean(), Type.Null()])

export const TrainingSetOfAgent = Type.Object(
  {
    labels: Type.Union(
      [
        Type.Array(Type.Record(Column, Value), { minItems: 1, maxItems: MAX_ROWS }),
        Type.Object({ product: Product, columns: Columns }, closed),
      ],
      { 'x-expected': `up to ${MAX_ROWS} rows, or a product` },
    ),
    time_column: Type.String({ minLength: 1, maxLength: 200, default: 'event_time', description: 'Of labels.' }),
    features: Type.Array(
      Type.Object(
        {
          product: Product,
          name: Type.Optional(
            Type.String({ minLength: 1, maxLength: 100, description: 'Prefix of its columns; default: product.' }),
          ),
          key: Type.Union(
            [
              Column,
              Type.Array(Column, { minItems: 1, maxItems: MAX_KEY_COLUMNS }),
              Type.Record(Column, Column, { minProperties: 1, maxProperties: MAX_KEY_COLUMNS }),
            ],
            { 'x-expected': 'columns that both have, or {of product: of labels}' },
          ),
          time_column: Column,
          columns: Columns,
          max_age: Type.Optional(Type.String({ maxLength: 20, description: 'As 24h, 7d.' })),
        },
        closed,
      ),
      { minItems: 1, maxItems: MAX_FEATURES },
    ),
    known_by: Type.Optional(Type.String({ maxLength: 64, description: 'Time: features as known then.' })),
  },
  closed,
)
