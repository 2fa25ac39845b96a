import { LOGICAL_TYPE_NAMES, type LogicalType } from '@sluice/sdk'
import { Type } from 'typebox'
import { closed, columnName, header, MANIFEST_LIMITS, oneOf, pattern } from './shape.ts'

export const COLUMN_ROLES = ['identity', 'measure', 'dimension', 'time', 'attribute'] as const
export const WRITE_MODES = ['replace', 'merge', 'append'] as const

/** The types to choose from, as an author writes them. */
export const TYPE_CHOICES = LOGICAL_TYPE_NAMES.map((name) => (name === 'decimal' ? 'decimal(18,2)' : name))

const LogicalTypeText = Type.Unsafe<LogicalType>({
  type: 'string',
  description: 'The logical type: string, boolean, integer, long, float, double, decimal(p,s), date, …',
  anyOf: [
    { enum: LOGICAL_TYPE_NAMES.filter((name) => name !== 'decimal') },
    { pattern: '^decimal\\(\\s*[0-9]{1,2}\\s*,\\s*[0-9]{1,2}\\s*\\)$' },
  ],
  'x-expected': 'a logical type',
  'x-choices': TYPE_CHOICES,
})

export const ColumnFields = closed({
  name: pattern(
    'The column in the lake and in every store.',
    '^[A-Za-z_][A-Za-z0-9_]{0,62}$',
    'letters, digits and underscores, at most 63, not beginning with a digit',
  ),
  type: LogicalTypeText,
  role: Type.Optional(oneOf(COLUMN_ROLES, 'The identity columns, in their order, are the primary key.')),
  classification: Type.Optional(
    pattern(
      'public, a level, or a class such as pii.identifier. Drives masking. Default: public.',
      '^(public|internal|confidential|restricted|[a-z][a-z0-9_]{0,62}(\\.[a-z][a-z0-9_]{0,62}){1,3})$',
      'public, internal, confidential, restricted, or a class such as pii.identifier',
    ),
  ),
  nullable: Type.Optional(
    Type.Boolean({ description: 'Whether it may be empty. Default: true, and false for identity columns.' }),
  ),
  description: Type.Optional(Type.String({ maxLength: MANIFEST_LIMITS.descriptionLength })),
})

export const PartitionFields = closed({
  column: columnName('A column of the schema.'),
  transform: Type.Optional(
    pattern(
      'How values become partitions. Default: identity.',
      '^(identity|year|month|day|hour|(bucket|truncate)(\\[[1-9][0-9]{0,5}\\]|\\([1-9][0-9]{0,5}\\)))$',
      'identity, year, month, day, hour, bucket[N] or truncate[N]',
    ),
  ),
})

const LADDER_STEPS = 10

const duration = (description: string) =>
  pattern(description, '^[1-9][0-9]{0,5}(s|m|h|d)$', 'a number and s, m, h or d, such as 15m', 8)

const LadderStepFields = closed({
  for: Type.Optional(duration('Up to which age a snapshot is of this step. Only the last step may do without.')),
  every: Type.Union([Type.Literal('all'), duration('Of each span of this length the newest snapshot is kept.')], {
    description: 'Which snapshots are kept: the newest of each span of this length, or all.',
    'x-expected': 'all, or a number and s, m, h or d, such as 15m',
  }),
})

const keepAllOr = (description: string, schema: Type.TSchema) =>
  Type.Union([Type.Literal('all'), schema], { description, 'x-expected': 'all, or a number' })

export const OutputFile = closed(
  {
    ...header('Output'),
    format: Type.Optional(oneOf(['iceberg'], 'The format of the lake. Default: iceberg.')),
    schema: Type.Array(ColumnFields, {
      description: 'The columns.',
      minItems: 1,
      maxItems: MANIFEST_LIMITS.columns,
    }),
    partitioning: Type.Optional(
      Type.Array(PartitionFields, {
        description: 'How files are laid out.',
        maxItems: MANIFEST_LIMITS.partitionFields,
      }),
    ),
    write_mode: Type.Optional(
      oneOf(
        WRITE_MODES,
        'How a materialization meets the former rows. Default: merge with identity columns, else replace.',
      ),
    ),
    keep_missing: Type.Optional(
      Type.Boolean({
        description: 'With merge: whether keys that the output no longer has stay. Default: false, they are deleted.',
      }),
    ),
    allow_lossy: Type.Optional(
      Type.Array(columnName('A column of the schema.'), {
        description: 'Columns whose values may lose something on the way into their type. Default: none.',
        maxItems: MANIFEST_LIMITS.columns,
      }),
    ),
    retention: Type.Optional(
      closed(
        {
          snapshots: Type.Optional(
            Type.Union(
              [
                Type.Literal('all'),
                pattern('', '^[1-9][0-9]{0,5}(h|d)$', 'a number and h or d'),
                Type.Array(LadderStepFields, { minItems: 1, maxItems: LADDER_STEPS }),
              ],
              {
                description:
                  'How long snapshots are kept; or a ladder: a list of steps, by age, of which each says how many of its snapshots are kept. A ladder keeps 500 at most.',
                'x-expected': 'all, a number and h or d, or a list of steps',
              },
            ),
          ),
          keep_last: Type.Optional(
            keepAllOr('How many snapshots are kept.', Type.Integer({ minimum: 1, maximum: 1_000_000 })),
          ),
        },
        {
          description:
            'Default: every snapshot is kept; of a product that is made as changes come, by a continuous schedule, those of the ladder 1m all, 1h every 1m, 1d every 15m, then every 1d.',
        },
      ),
    ),
  },
  { title: 'output.yaml' },
)

export type ColumnFields = Type.Static<typeof ColumnFields>
export type PartitionFields = Type.Static<typeof PartitionFields>
export type OutputFile = Type.Static<typeof OutputFile>
