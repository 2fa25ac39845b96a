import { Type } from 'typebox'
import {
  closed,
  columnName,
  columnNames,
  columnOrColumns,
  duration,
  header,
  MANIFEST_LIMITS,
  oneOf,
  pattern,
  text,
} from './shape.ts'

export const SEVERITIES = ['error', 'warn'] as const
export const DIMENSIONS = ['completeness', 'uniqueness', 'validity', 'consistency', 'timeliness', 'accuracy'] as const
export const ON_ERROR = ['block', 'quarantine', 'publish'] as const

/** A check has exactly one of these. */
export const CHECK_KINDS = [
  'sql',
  'not_null',
  'unique',
  'accepted_values',
  'range',
  'matches',
  'references',
  'row_count',
  'freshness',
  'schema',
  'anomaly',
] as const

/** What an anomaly check measures. */
export const METRICS = ['row_count', 'null_share', 'distinct', 'drift'] as const
export const SENSITIVITIES = ['low', 'normal', 'high'] as const
/** What a new version is compared by. */
export const COMPARED_METRICS = ['rows', 'leaving', 'joining', 'changed', 'null_share'] as const
/** A check learns of no more. */
export const MOST_EPOCHS = 100

const scalar = (description: string) =>
  Type.Union([Type.String({ maxLength: 10_000 }), Type.Number(), Type.Boolean()], {
    description,
    'x-expected': 'a text, a number, true or false',
  })

const alias = (description: string) => Type.String({ description, minLength: 1, maxLength: 63 })

const rows = (description: string) => Type.Integer({ description, minimum: 0, maximum: Number.MAX_SAFE_INTEGER })

const epochs = (description: string) => Type.Integer({ description, minimum: 3, maximum: MOST_EPOCHS })

const PERCENT = '^(100|[0-9]{1,2})(\\.[0-9]{1,6})?\\s*%$'

const bound = (description: string) =>
  Type.Union([rows('Rows.'), pattern('Percent.', PERCENT, 'a percentage')], {
    description,
    'x-expected': 'a number of rows, or a percentage such as "5%"',
  })

/** Bounds of some columns, each for itself. */
const ofColumns = (description: string, atMost: ReturnType<typeof bound> | ReturnType<typeof pattern>) =>
  Type.Array(closed({ columns: columnOrColumns('The columns, each by itself.'), at_most: atMost }), {
    description,
    minItems: 1,
    maxItems: MANIFEST_LIMITS.columns,
  })

const NewVersionFields = closed(
  {
    rows: Type.Optional(
      bound('By how much the number of rows may differ, up or down; percent of the rows that are served.'),
    ),
    leaving: Type.Optional(bound('How many of the rows that are served may be gone, by their identity.')),
    joining: Type.Optional(bound('How many rows may be new, by their identity; percent of the rows that are served.')),
    changed: Type.Optional(
      ofColumns(
        'In how many of the rows that both versions have a column may hold another value.',
        bound('Rows, or percent of the rows that both versions have.'),
      ),
    ),
    null_share: Type.Optional(
      ofColumns(
        'By how many percentage points the share of rows without a value may differ.',
        pattern('Percentage points.', PERCENT, 'a percentage such as 1%'),
      ),
    ),
  },
  {
    description:
      'How much the first rows of a new version may differ from those that are served. Where more differs the version does not come into service, unless it is deployed with its differences accepted.',
    minProperties: 1,
  },
)

export const CheckFields = closed({
  name: text('The name under which its results are kept.', 100),
  description: Type.Optional(Type.String({ maxLength: MANIFEST_LIMITS.descriptionLength })),
  severity: Type.Optional(oneOf(SEVERITIES, 'A failing warn is reported and changes nothing else. Default: error.')),
  dimension: Type.Optional(oneOf(DIMENSIONS, 'Which part of the score it counts for.')),
  weight: Type.Optional(Type.Number({ description: 'Its share in the score. Default: 1.', minimum: 0, maximum: 1000 })),
  threshold: Type.Optional(
    Type.Union([rows('Rows.'), pattern('Percent.', '^(100|[0-9]{1,2})(\\.[0-9]{1,6})?\\s*%$', 'a percentage')], {
      description: 'How many rows may violate it: a number of rows, or a percentage such as "1%". Default: 0.',
      'x-expected': 'a number of rows, or a percentage such as "1%"',
    }),
  ),
  on_error: Type.Optional(oneOf(ON_ERROR, 'What happens when it fails. Default: what the file says, else block.')),
  sql: Type.Optional(
    text(
      'A query over {{this}} or an alias: rows are violations, or one number named violations.',
      MANIFEST_LIMITS.sqlLength,
    ),
  ),
  not_null: Type.Optional(columnOrColumns('Columns that hold a value in every row.')),
  unique: Type.Optional(columnOrColumns('Columns whose values, together, stand in one row only.')),
  accepted_values: Type.Optional(
    closed({
      column: columnName('The column.'),
      values: Type.Array(scalar('A value.'), {
        minItems: 1,
        maxItems: MANIFEST_LIMITS.acceptedValues,
        uniqueItems: true,
      }),
    }),
  ),
  range: Type.Optional(
    closed({
      column: columnName('The column.'),
      min: Type.Optional(scalar('The least value.')),
      max: Type.Optional(scalar('The greatest value.')),
      exclusive: Type.Optional(Type.Boolean({ description: 'Whether the bounds themselves violate. Default: false.' })),
    }),
  ),
  matches: Type.Optional(
    closed({
      column: columnName('The column.'),
      pattern: text('A regular expression (RE2) for the whole value.', 1000),
    }),
  ),
  references: Type.Optional(
    closed({
      columns: columnOrColumns('The columns that refer.'),
      input: alias('The alias of the input referred to.'),
      input_columns: Type.Optional(columnOrColumns('Its columns. Default: the same names.')),
    }),
  ),
  row_count: Type.Optional(
    closed({
      min: Type.Optional(rows('The fewest rows.')),
      max: Type.Optional(rows('The most rows.')),
    }),
  ),
  freshness: Type.Optional(
    closed({
      column: columnName('A date or timestamp column.'),
      max_age: duration('How old the newest value may be.'),
    }),
  ),
  schema: Type.Optional(
    closed({
      input: Type.Optional(alias('The alias of an input. Default: the product itself.')),
      columns: columnNames('The columns that must be there.'),
      exact: Type.Optional(Type.Boolean({ description: 'Whether there may be no other. Default: false.' })),
    }),
  ),
  anomaly: Type.Optional(
    closed(
      {
        metric: oneOf(
          METRICS,
          'What is measured: rows, the share of rows without a value, different values, or how far the values of a column lie from those of the last epochs.',
        ),
        column: Type.Optional(columnName('The column; of row_count none.')),
        sensitivity: Type.Optional(
          oneOf(SENSITIVITIES, 'How narrow the bounds are. Default: normal, five deviations.'),
        ),
        min_history: Type.Optional(epochs('Of how many epochs it must know before it judges. Default: 7.')),
        window: Type.Optional(epochs('Of how many epochs, the newest ones, it learns. Default: 30.')),
        learn_from: Type.Optional(
          pattern(
            'Epochs before this day (UTC) teach it nothing: where what was unusual is usual from now on.',
            '^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])$',
            'a day such as 2026-05-01',
          ),
        ),
      },
      { description: 'That the rows are as those of the last epochs were, by bounds that are learned from them.' },
    ),
  ),
})

/** What becomes of an epoch that products made of this one do not expect. */
export const DOWNSTREAM_EXPECTATIONS = ['enforce', 'warn', 'ignore'] as const

/** A check of an input that is a product, with the kinds that need nothing but its rows. */
const { name: nameField, schema: _schema, sql: _sql, ...ofChecks } = CheckFields.properties
const {
  on_error: _onError,
  references: _references,
  anomaly: _anomaly,
  weight: _weight,
  dimension: _dimension,
  ...ofExpectations
} = ofChecks

export const ExpectationFields = closed({
  on: alias('The alias of an input that is a product.'),
  name: nameField,
  ...ofExpectations,
  severity: Type.Optional(
    oneOf(
      SEVERITIES,
      'error: where the product that the input is agrees (downstream_expectations: enforce), rows that fail it are not published. warn: they are, and both owners are told. Default: error.',
    ),
  ),
  sql: Type.Optional(
    text(
      'A query over {{this}}, the rows of the input: rows are violations, or one number named violations.',
      MANIFEST_LIMITS.sqlLength,
    ),
  ),
  schema: Type.Optional(
    closed({
      columns: columnNames('The columns that must be there.'),
      exact: Type.Optional(Type.Boolean({ description: 'Whether there may be no other. Default: false.' })),
    }),
  ),
})

export const QualityFile = closed(
  {
    ...header('Quality'),
    on_error: Type.Optional(
      oneOf(
        ON_ERROR,
        'What happens when a check of severity error fails. Default: block. Rows in quarantine lie beside the product; where it is merged, their keys keep the rows that passed last.',
      ),
    ),
    max_rejected: Type.Optional(
      closed(
        {
          share: Type.Optional(
            pattern('Default: 0.1%.', '^(100|[0-9]{1,2})(\\.[0-9]{1,6})?\\s*%$', 'a percentage such as 0.1%'),
          ),
          rows: Type.Optional(rows('Default: 100.')),
        },
        {
          description:
            'How many rows of an input’s table may be left out because they cannot be carried, or lack a value that the product uses. When both are exceeded, reading fails, or making the product.',
        },
      ),
    ),
    new_version: Type.Optional(NewVersionFields),
    uses: Type.Optional(
      Type.Array(
        closed({
          product: text('The product whose checks they are: namespace.name. Its version in service has them.', 200),
          checks: Type.Array(text('The name of a check.', 100), {
            description: 'Which of its checks.',
            minItems: 1,
            maxItems: MANIFEST_LIMITS.checks,
            uniqueItems: true,
          }),
        }),
        {
          description:
            'Checks of other products, as these have them when the file is uploaded. They look at the rows and inputs of this product.',
          maxItems: MANIFEST_LIMITS.sharingProducts,
        },
      ),
    ),
    expectations: Type.Optional(
      Type.Array(ExpectationFields, {
        description:
          'What the product expects of inputs that are products. It is held against new rows of these before they are published, as this product is shown them.',
        maxItems: MANIFEST_LIMITS.expectations,
      }),
    ),
    downstream_expectations: Type.Optional(
      oneOf(
        DOWNSTREAM_EXPECTATIONS,
        'What the expectations of products that are made of this one may do. enforce: rows that fail one, and that the rows in service do not fail, are not published; warn: they are, and both owners are told; ignore: none is looked at. Default: warn.',
      ),
    ),
    checks: Type.Optional(Type.Array(CheckFields, { description: 'The checks.', maxItems: MANIFEST_LIMITS.checks })),
  },
  { title: 'quality.yaml' },
)

export type CheckKind = (typeof CHECK_KINDS)[number]

/**
 * What a check of each kind tells of a failure: which rows are bad, so that they can be put aside; how many violate it, so that
 * it can bear some; or only whether it holds.
 */
export const TELLS: Readonly<Record<CheckKind, 'which rows' | 'how many' | 'whether'>> = {
  sql: 'how many',
  not_null: 'which rows',
  unique: 'which rows',
  accepted_values: 'which rows',
  range: 'which rows',
  matches: 'which rows',
  references: 'which rows',
  row_count: 'whether',
  freshness: 'whether',
  schema: 'whether',
  anomaly: 'whether',
}

export interface UseFields {
  readonly product: string
  readonly checks: readonly string[]
}
export type NewVersionFields = Type.Static<typeof NewVersionFields>
export type CheckFields = Type.Static<typeof CheckFields>
export type ExpectationFields = Type.Static<typeof ExpectationFields>
export type QualityFile = Type.Static<typeof QualityFile>
