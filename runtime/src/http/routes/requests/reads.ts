/** Bodies of requests for rows. */

import { Type } from 'typebox'
import { MAX_ITEMS, MAX_KEYS } from '../../../operations/reads/read-keys.ts'
import { Reference } from './paths.ts'

const Epoch = Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER })

/** Of one product, or by name. */
const AtLeastEpoch = Type.Optional(
  Type.Union([Epoch, Type.Record(Type.String({ maxLength: 200 }), Epoch, { minProperties: 1, maxProperties: 50 })], {
    'x-expected': 'an epoch, or an object with one for each <namespace>.<product>',
    description:
      'The answer rests on this epoch of its product or a later one, or is refused (epoch_not_reached): it waits for as long as it may take. Of several products {"<namespace>.<product>": epoch}. Runs and products tell which epoch they made.',
  }),
)

const Consistent = Type.Optional(
  Type.Boolean({
    description:
      'All products of the answer rest on the same rows of what they are made of, or it is refused (answer_not_consistent): it waits for as long as it may take.',
  }),
)

/** Of the one product that is read. */
export const AtLeastEpochOfOne = Type.Optional(
  Type.Integer({
    minimum: 1,
    maximum: Number.MAX_SAFE_INTEGER,
    description:
      'The answer is of this epoch or a later one, or is refused (epoch_not_reached): it waits for 20 seconds at most.',
  }),
)

export const QueryRequest = Type.Object(
  {
    sql: Type.String({ minLength: 1, maxLength: 1_000_000 }),
    params: Type.Optional(
      Type.Array(Type.Union([Type.String(), Type.Number(), Type.Boolean(), Type.Null()]), { maxItems: 1000 }),
    ),
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 1_000_000 })),
    timeout_ms: Type.Optional(Type.Integer({ minimum: 1, maximum: 600_000 })),
    as_of: Type.Optional(Type.String({ maxLength: 64, description: 'A time, a snapshot id, or a version as v1.2.0.' })),
    at_least_epoch: AtLeastEpoch,
    consistent: Consistent,
  },
  { additionalProperties: false },
)

const KeyPart = Type.Union([Type.String({ maxLength: 4096 }), Type.Number(), Type.Boolean()])

/** Of an answer, in its order. */
export const ColumnNames = Type.Optional(
  Type.Array(Type.String({ minLength: 1, maxLength: 200 }), {
    minItems: 1,
    maxItems: 1000,
    description: 'Default: all.',
  }),
)

export const ReadKeysRequest = Type.Object(
  {
    items: Type.Array(
      Type.Object(
        {
          product: Reference,
          store: Type.Union([Type.Literal('lookup'), Type.Literal('realtime')]),
          keys: Type.Array(
            Type.Union(
              [KeyPart, Type.Record(Type.String({ maxLength: 200 }), KeyPart, { minProperties: 1, maxProperties: 50 })],
              { 'x-expected': 'a value, or an object with the values of its columns' },
            ),
            {
              minItems: 1,
              maxItems: MAX_KEYS,
              description:
                'lookup: the value of the identity column, or an object with that of each. realtime: the key_template with the values of the row, or an object with those of its columns. Numbers of more than 15 digits, and whole ones beyond ±(2^53−1), as strings.',
            },
          ),
          columns: ColumnNames,
        },
        { additionalProperties: false },
      ),
      { minItems: 1, maxItems: MAX_ITEMS },
    ),
    at_least_epoch: AtLeastEpoch,
    consistent: Consistent,
  },
  { additionalProperties: false },
)
