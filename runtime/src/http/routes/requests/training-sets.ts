/** Bodies of requests for training sets. */

import { Type } from 'typebox'
import { MAX_LABELS } from '../../../operations/queries/training-labels.ts'
import { MAX_FEATURES, MAX_KEY_COLUMNS } from '../../../operations/queries/training-set.ts'
import { Reference } from './paths.ts'
import { ColumnNames, QueryRequest } from './reads.ts'

const ColumnName = Type.String({ minLength: 1, maxLength: 200 })

const LabelTime = Type.String({
  minLength: 1,
  maxLength: 200,
  default: 'event_time',
  description: 'The column of the labels that says of which time each is.',
})

export const TrainingSetRequest = Type.Object(
  {
    labels: Type.Union(
      [
        Type.Array(
          Type.Record(
            ColumnName,
            Type.Union([Type.String({ maxLength: 4096 }), Type.Number(), Type.Boolean(), Type.Null()]),
          ),
          { minItems: 1, maxItems: MAX_LABELS },
        ),
        Type.Object({ product: Reference, columns: ColumnNames }, { additionalProperties: false }),
      ],
      {
        'x-expected': `a list of up to ${MAX_LABELS} rows, each an object of values, or an object that names a product`,
        description:
          'The rows that features are found for: objects of values, whole numbers beyond ±(2^53−1) as strings; or a product, whose rows come by their time.',
      },
    ),
    time_column: LabelTime,
    features: Type.Array(
      Type.Object(
        {
          product: Reference,
          name: Type.Optional(
            Type.String({
              minLength: 1,
              maxLength: 100,
              description: 'Its columns come as <name>__<column>. Default: the name of the product.',
            }),
          ),
          key: Type.Union(
            [
              ColumnName,
              Type.Array(ColumnName, { minItems: 1, maxItems: MAX_KEY_COLUMNS }),
              Type.Record(ColumnName, ColumnName, { minProperties: 1, maxProperties: MAX_KEY_COLUMNS }),
            ],
            {
              'x-expected': 'a column, a list of columns, or an object of columns',
              description:
                'Columns of the product that equal those of the same name in the labels; or an object that gives the column of the labels for each.',
            },
          ),
          time_column: Type.String({
            minLength: 1,
            maxLength: 200,
            description: 'Of the product: the newest row counts that is no later than the label.',
          }),
          columns: Type.Optional(
            Type.Array(ColumnName, {
              minItems: 1,
              maxItems: 1000,
              description: 'Default: all but those of the key and the time.',
            }),
          ),
          max_age: Type.Optional(
            Type.String({
              maxLength: 20,
              description:
                'As 30s, 15m, 24h or 7d: rows that are older than that at the time of the label do not count.',
            }),
          ),
        },
        { additionalProperties: false },
      ),
      { minItems: 1, maxItems: MAX_FEATURES },
    ),
    known_by: Type.Optional(
      Type.String({
        maxLength: 64,
        description: 'A time: features are read as their products were then. Default: as they are now.',
      }),
    ),
    timeout_ms: QueryRequest.properties.timeout_ms,
  },
  { additionalProperties: false },
)
