import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { ManifestContext } from './context.ts'
import { type Edit, inBrief, parseEdited } from './editing.ts'
import { contractServingTypes, EXAMPLES, type ExampleName, exampleContext } from './examples.ts'

/** What one edit of an example must lead to, and nothing besides. */
interface Case {
  readonly says: string
  readonly example?: ExampleName
  readonly edits: readonly Edit[]
  readonly context?: Partial<ManifestContext>
  readonly problems?: readonly string[]
  readonly warnings?: readonly string[]
  /** Of the first problem, or of a warning where there is no problem. */
  readonly hint?: string
}

/** The warnings of the customers example as it stands. */
const USUAL = [
  'endpoints[0].config.index_columns[0]: "customer_id" is classified pii.identifier: readers who see it masked cannot filter by it',
  'endpoints[1].config.time_column: "last_order_at" may be empty; rows without a time are not served by this endpoint',
  'endpoints[3].config.key_template: "customer_id" is classified pii.identifier: readers who see it masked cannot read by this key',
]

const DASHBOARDS: NonNullable<ManifestContext['dashboards']> = {
  endpoints: ['lookup', 'timeseries'],
  templates: {
    names: ['trend', 'map'],
    missing: (template) => (template === 'map' ? 'a column of places' : null),
  },
}

const PRODUCT: readonly Case[] = [
  {
    says: 'another name than the registered one',
    edits: [['product', 'name: customer_orders', 'name: customers']],
    problems: ['name: the product is registered with the name customer_orders, not customers'],
  },
  {
    says: 'a name in capitals',
    edits: [['product', 'namespace: sales', 'namespace: Sales-EU']],
    problems: [
      'namespace: the namespace must begin with a lower-case letter and hold only lower-case letters, digits and underscores',
    ],
    hint: 'Write sales_eu.',
  },
  ...(
    [
      ['pg_x', 'must not begin with pg_, which the platform keeps for itself'],
      ['raw_x', 'must not begin with raw_, which the platform keeps for itself'],
      ['a__masked', 'must not hold two underscores in a row, which the platform keeps for itself'],
      ['information_schema', 'is a name that the platform keeps for itself'],
      ['sluice_store', 'must not begin with sluice_, which the platform keeps for itself'],
    ] as const
  ).map(
    ([name, why]): Case => ({
      says: `the namespace ${name}`,
      edits: [['product', 'namespace: sales', `namespace: ${name}`]],
      context: { product: { name: 'customer_orders', domain: name } },
      problems: [`namespace: the namespace ${why}`],
    }),
  ),
  {
    says: 'a missing field',
    edits: [['product', 'archetype: aggregate\n', '']],
    problems: [': "archetype" is missing'],
    hint: 'archetype: Where the product stands between sources and consumers.',
  },
  {
    says: 'another kind of manifest',
    edits: [['product', 'kind: Product', 'kind: Serving']],
    problems: ['kind: must be Product, not "Serving"'],
  },
  {
    says: 'a field without a value',
    edits: [['product', 'freshness: 24h', 'freshness:']],
    problems: ['slo.freshness: has no value; it must be a number and s, m, h or d, for example 24h'],
  },
]

const INPUTS: readonly Case[] = [
  {
    says: 'an alias twice, whatever its case',
    edits: [['inputs', 'name: orders', 'name: Customers']],
    problems: [
      'inputs[1].name: the alias "Customers" stands here twice',
      'checks[8].schema.input: inputs.yaml has no input "orders"',
    ],
  },
  {
    says: 'a product as an input, with what is of tables',
    edits: [['inputs', 'connection: shop\n    table: orders', 'product: sales.orders\n    table: orders']],
    problems: [
      'inputs[1].table: is of tables of connections, and this input is a product',
      'inputs[1].mode: is of tables of connections, and this input is a product',
    ],
  },
  ...(['source_aligned', 'consumer_aligned', 'aggregate'] as const).map((archetype): Case => {
    const hint = 'Write archetype: aggregate or consumer_aligned in product.yaml.'
    const isRefused = archetype === 'source_aligned'
    return {
      says: `a product as an input of one that is ${archetype}${isRefused ? '' : ', which is no problem'}`,
      edits: [
        ['product', 'archetype: aggregate', `archetype: ${archetype}`],
        ['inputs', 'connection: shop\n    table: orders\n    mode: full', 'product: sales.orders'],
      ],
      ...(isRefused
        ? {
            problems: [
              'inputs[1].product: a product of the archetype source_aligned is made of tables of connections alone',
            ],
            hint,
          }
        : { warnings: USUAL }),
    }
  }),
  {
    says: 'a product as an input that is no name of one',
    edits: [['inputs', 'connection: shop\n    table: orders\n    mode: full', 'product: Sales.orders.x']],
    problems: ['inputs[1].product: "Sales.orders.x" is no name of a product'],
  },
  {
    says: 'what products are called among connections',
    edits: [
      ['inputs', 'connection: shop\n    table: orders', 'connection: "#products"\n    table: sales.orders__masked'],
    ],
    problems: ['inputs[1].connection: there is no connection "#products"'],
  },
  {
    says: 'an epoch of a table',
    edits: [['inputs', 'table: orders\n', 'table: orders\n    epoch: latest\n']],
    problems: ['inputs[1].epoch: is of inputs that are products'],
  },
  {
    says: 'an input without a table',
    edits: [['inputs', 'table: orders\n    mode: full', 'mode: full']],
    problems: ['inputs[1]: "table" is missing'],
  },
  {
    says: 'a cursor that is not read',
    edits: [['inputs', 'columns: [id, full_name, email, country, updated_at]', 'columns: [id, full_name]']],
    context: { connections: new Map() },
    problems: [
      'inputs[0].connection: there is no connection "shop"',
      'inputs[1].connection: there is no connection "shop"',
    ],
  },
  {
    says: 'a cursor that is not used, as a warning',
    edits: [['inputs', 'mode: full', 'mode: full\n    cursor_column: id']],
    problems: [],
    warnings: ['inputs[1].cursor_column: is not used in mode full', ...USUAL],
  },
  {
    says: 'the alias "this"',
    example: 'minimal',
    edits: [['inputs', 'name: countries', 'name: this']],
    problems: ['inputs[0].name: "this" means the product itself'],
  },
]

const OUTPUT: readonly Case[] = [
  {
    says: 'nothing of append with identity, whatever the transform',
    example: 'readings',
    edits: [
      ['output', 'type: long, nullable: false', 'type: long, role: identity'],
      ['compute', 'trigger: manual', 'transform: SELECT * FROM raw_readings'],
    ],
    problems: [],
  },
  {
    says: 'columns that differ in case only',
    edits: [['output', 'name: country', 'name: FULL_NAME']],
    problems: [
      'schema[2].name: "FULL_NAME" and "full_name" differ in case only',
      'partitioning[0].column: output.yaml has no column "country"',
      'checks[2].accepted_values.column: output.yaml has no column "country"',
      'endpoints[0].config.index_columns[1]: output.yaml has no column "country"',
      'endpoints[0].config.tracked_columns[0]: output.yaml has no column "country"',
    ],
    warnings: USUAL,
  },
  {
    says: 'a nullable identity',
    edits: [['output', 'role: identity', 'role: identity\n    nullable: true']],
    problems: ['schema[0].nullable: an identity column cannot be nullable'],
    warnings: USUAL,
  },
  {
    says: 'an inexact identity',
    example: 'readings',
    edits: [['output', 'type: long, nullable: false', 'type: double, role: identity']],
    problems: ['schema[0].type: values of type double cannot identify a row'],
  },
  {
    says: 'a type of another platform, with the one that was meant',
    example: 'readings',
    edits: [['output', 'type: json', 'type: jsonb']],
    problems: ['schema[4].type: must be a logical type, not "jsonb"'],
    hint: 'Did you mean json?',
  },
  {
    says: 'an unquoted decimal in a flow map',
    example: 'readings',
    edits: [['output', '"decimal(12,4)"', 'decimal(12,4)']],
    problems: ['schema[3].type: must be a logical type, not "decimal(12"', 'schema[3]["4)"]: unknown field "4)"'],
    hint: 'Quote it: "decimal(12,2)".',
  },
  {
    says: 'a decimal with too many digits',
    example: 'readings',
    edits: [['output', 'decimal(12,4)', 'decimal(39,4)']],
    problems: ['schema[3].type: decimal(39,4) is no decimal type'],
  },
  {
    says: 'a partition transform that does not fit the type',
    edits: [['output', 'transform: bucket[16]', 'transform: day']],
    problems: ['partitioning[1].transform: day cannot partition by a column of type long'],
    hint: 'Possible for it: identity, bucket, truncate.',
    warnings: USUAL,
  },
  {
    says: 'partitioning twice by one column',
    example: 'readings',
    edits: [['output', 'transform: day }', 'transform: day }\n  - { column: measured_at, transform: hour }']],
    problems: ['partitioning[1].column: "measured_at" already partitions the table'],
  },
  {
    says: 'merge without identity',
    example: 'readings',
    edits: [['output', 'write_mode: append', 'write_mode: merge']],
    problems: ['write_mode: merge needs identity columns: without them no row can be told from another'],
  },
  {
    says: 'rows that stay where nothing is merged',
    example: 'readings',
    edits: [['output', 'write_mode: append', 'write_mode: append\nkeep_missing: true']],
    problems: ['keep_missing: is a choice of merge: append keeps every row that it ever had'],
  },
  {
    says: 'a log beside a cursor or a way to find deletes',
    edits: [['inputs', 'mode: incremental', 'mode: cdc\n    deletes: key_sweep']],
    problems: [
      'inputs[0].deletes: the log of the source tells which rows are gone',
      'inputs[0].cursor_column: is of no use in mode cdc: the log says what has changed',
      'inputs[0].primary_key: mode cdc goes by the key that the source declares',
    ],
  },
  {
    says: 'rows that are gone, left unseen without a reason',
    edits: [['inputs', 'mode: incremental', 'mode: incremental\n    deletes: unseen']],
    problems: ['inputs[0].deletes: unseen leaves rows that are gone at the source, and does not say why'],
    warnings: USUAL,
  },
  {
    says: 'a reason without its choice',
    edits: [['inputs', 'mode: incremental', 'mode: incremental\n    deletes_reason: rows are only added']],
    problems: ['inputs[0].deletes_reason: is of use only with deletes: unseen'],
    warnings: USUAL,
  },
  {
    says: 'rows left unseen by a read that sees them all',
    edits: [['inputs', 'mode: full', 'mode: full\n    deletes: unseen\n    deletes_reason: none is ever deleted']],
    problems: ['inputs[1].deletes: a table that is read in full loses the rows that are gone'],
    warnings: USUAL,
  },
  {
    says: 'deletes by a log, which nothing reads yet',
    edits: [['inputs', 'mode: incremental', 'mode: incremental\n    deletes: log']],
    problems: ['inputs[0].deletes: "log" is not possible here'],
    warnings: USUAL,
  },
  {
    says: 'append without identity where rows are transformed',
    example: 'readings',
    edits: [['compute', 'trigger: manual', 'transform: SELECT * FROM raw_readings']],
    problems: ['write_mode: append without identity columns and with a transform could repeat or miss rows'],
  },
  {
    says: 'append without identity where the input is read whole',
    example: 'readings',
    edits: [['inputs', 'mode: incremental\n    cursor_column: sequence', 'mode: full']],
    problems: ['write_mode: append without identity columns needs the input "raw_readings" in mode incremental'],
  },
  {
    says: 'a class that nothing masks',
    edits: [['output', 'classification: pii.name', 'classification: finance.salary']],
    problems: ['schema[1].classification: no masking is configured for the class finance.salary'],
    warnings: USUAL,
  },
  {
    says: 'a level that the product does not have',
    edits: [['output', 'classification: pii.name', 'classification: restricted']],
    problems: [
      'schema[1].classification: the column is restricted, but product.yaml lets readers of confidential products see it',
    ],
    warnings: USUAL,
  },
  {
    says: 'a column that stores add themselves',
    example: 'minimal',
    edits: [['output', 'name: code', 'name: tenant_id']],
    problems: ['schema[0].name: "tenant_id" is a column that every store adds by itself'],
  },
  {
    says: 'no columns',
    example: 'minimal',
    edits: [['output', '\n  - name: code\n    type: string\n  - name: title\n    type: string', ' []']],
    problems: ['schema: must name at least one'],
  },
]

const QUALITY: readonly Case[] = [
  {
    says: 'a check that checks nothing, and one that checks two things',
    edits: [
      ['quality', '    not_null: customer_id\n', ''],
      ['quality', '    unique: [customer_id]', '    unique: [customer_id]\n    not_null: customer_id'],
    ],
    problems: [
      'checks[0]: the check does not say what it checks',
      'checks[1]: a check checks one thing, not not_null and unique',
    ],
    warnings: USUAL,
  },
  {
    says: 'values that are none of the column',
    edits: [
      ['quality', 'values: [AT, CH, DE, FR]', 'values: [AT, 7]'],
      ['quality', 'min: 0\n', 'min: 0.001\n'],
    ],
    problems: [
      'checks[2].accepted_values.values[1]: the value is none of type string',
      'checks[3].range.min: the value is none of type decimal(18,2)',
    ],
    warnings: USUAL,
  },
  {
    says: 'quarantine for what tells no rows',
    edits: [['quality', 'row_count:', 'on_error: quarantine\n    row_count:']],
    problems: ['checks[6].on_error: row_count does not say which rows are bad, so none can be put aside'],
    warnings: USUAL,
  },
  {
    says: 'a threshold for what holds or does not',
    edits: [['quality', 'row_count:', 'threshold: 5\n    row_count:']],
    problems: ['checks[6].threshold: row_count holds or does not, so it has no threshold'],
    warnings: USUAL,
  },
  {
    says: 'freshness of what is no time',
    edits: [['quality', 'column: last_order_at', 'column: revenue']],
    problems: [
      'checks[7].freshness.column: freshness needs a date or timestamp, and "revenue" is of type decimal(18,2)',
    ],
    warnings: USUAL,
  },
  {
    says: 'a pattern that RE2 cannot read, or of a number',
    edits: [
      ['quality', '.*\\S.*', '(?=a)b'],
      ['quality', 'column: full_name', 'column: order_count'],
    ],
    problems: [
      'checks[4].matches.column: a pattern fits columns of type string, and "order_count" is of type integer',
      'checks[4].matches.pattern: the pattern looks around or back, which RE2 cannot',
    ],
    warnings: USUAL,
  },
  {
    says: 'a reference to an input that is none, with other columns',
    edits: [
      ['quality', 'input: customers', 'input: custommers'],
      ['quality', 'input_columns: id', 'input_columns: [id, x]'],
    ],
    problems: [
      'checks[5].references.input: inputs.yaml has no input "custommers"',
      'checks[5].references.input_columns: 1 columns cannot refer to 2',
    ],
    warnings: USUAL,
  },
  {
    says: 'two checks of one name, and bounds the wrong way round',
    edits: [
      ['quality', 'name: id_unique', 'name: id_present'],
      ['quality', 'min: 1', 'min: 3\n      max: 2'],
    ],
    problems: [
      'checks[1].name: the check "id_present" stands here twice',
      'checks[6].row_count.max: max is less than min',
    ],
    warnings: USUAL,
  },
  ...(
    [
      ['metric: rows', ['.metric: "rows" is not possible here']],
      ['metric: row_count, column: country', ['.column: row_count counts rows, whatever they hold']],
      ['metric: distinct', [': distinct needs a column']],
      ['metric: drift, column: contry', ['.column: output.yaml has no column "contry"']],
      [
        'metric: null_share, column: customer_id',
        ['.column: "customer_id" holds a value in every row by output.yaml, so that its null_share is always 0'],
      ],
      [
        'metric: drift, column: last_order_at',
        ['.column: drift needs a column of numbers, string or boolean, and "last_order_at" is of type timestamptz'],
      ],
      [
        'metric: row_count, min_history: 20, window: 10',
        ['.window: a window of 10 epochs never holds the 20 that min_history asks for'],
      ],
      ['metric: row_count, min_history: 2', ['.min_history: must be at least 3']],
      ['metric: row_count, window: 101', ['.window: must be at most 100']],
      ['metric: row_count, learn_from: "2026-02-30"', ['.learn_from: there is no day 2026-02-30']],
      ['metric: row_count, learn_from: May', ['.learn_from: must be a day such as 2026-05-01, not "May"']],
      ['metric: row_count, sensitivity: 5', ['.sensitivity: must be text, not 5']],
      ['metric: row_count, colum: a', ['.colum: unknown field "colum"']],
    ] as const
  ).map(
    ([written, problems]): Case => ({
      says: `an anomaly check with ${written}`,
      edits: [['quality', 'row_count:\n      min: 1', `anomaly: { ${written} }`]],
      problems: problems.map((problem) => `checks[6].anomaly${problem}`),
      warnings: USUAL,
    }),
  ),
  {
    says: 'a threshold of an anomaly check, and rows that it would put aside',
    edits: [
      [
        'quality',
        'row_count:\n      min: 1',
        'anomaly: { metric: row_count }\n    threshold: 5\n    on_error: quarantine',
      ],
    ],
    problems: [
      'checks[6].threshold: anomaly holds or does not, so it has no threshold',
      'checks[6].on_error: anomaly does not say which rows are bad, so none can be put aside',
    ],
    warnings: USUAL,
  },
  {
    says: 'a threshold that is neither rows nor percent',
    edits: [['quality', 'threshold: 1%', 'threshold: 101%']],
    problems: ['checks[2].threshold: must be a number of rows, or a percentage such as "1%", not "101%"'],
    warnings: USUAL,
  },
]

const SERVING: readonly Case[] = [
  {
    says: 'a type that no store serves',
    edits: [['serving', 'type: lookup', 'type: lookups']],
    problems: ['endpoints[0].type: no store serves endpoints of type "lookups"'],
    hint: 'Did you mean lookup?',
    warnings: USUAL.slice(1),
  },
  {
    says: 'two endpoints of one type',
    edits: [['serving', 'type: analytics', 'type: analytics\n  - type: analytics']],
    problems: ['endpoints[3].type: the product already has an endpoint of type analytics'],
    warnings: [...USUAL.slice(0, 2), String(USUAL[2]).replace('[3]', '[4]')],
  },
  {
    says: 'lookup without identity columns',
    example: 'readings',
    edits: [['serving', 'type: analytics', 'type: lookup']],
    problems: ['endpoints[1]: lookup reads by primary key, and output.yaml has no identity columns'],
  },
  {
    says: 'a history without tracked columns',
    edits: [['serving', '      tracked_columns: [country, revenue]\n', '']],
    problems: ['endpoints[0].config.tracked_columns: history_mode type_2 needs tracked_columns'],
    warnings: USUAL,
  },
  {
    says: 'a history whose columns are there already, or that tracks the key',
    edits: [
      ['output', 'name: full_name', 'name: previous_country'],
      ['quality', 'column: full_name', 'column: country'],
      ['serving', 'type_2', 'type_3'],
      ['serving', '[country, revenue]', '[country, customer_id]'],
    ],
    problems: [
      'endpoints[0].config.history_mode: history_mode type_3 adds a column "previous_country", which output.yaml has already',
      'endpoints[0].config.tracked_columns[1]: "customer_id" identifies the row, so it never changes',
    ],
    warnings: USUAL,
  },
  {
    says: 'tracked columns without a history, as a warning',
    edits: [['serving', '      history_mode: type_2\n', '']],
    problems: [],
    warnings: [
      String(USUAL[0]),
      'endpoints[0].config.tracked_columns: tracked_columns have no effect with history_mode current',
      ...USUAL.slice(1),
    ],
  },
  {
    says: 'a time column that is no time, or is masked, and aggregates of the same interval',
    edits: [
      ['serving', 'time_column: last_order_at', 'time_column: country'],
      [
        'serving',
        '        - interval: 1 week',
        '        - interval: 1 weeks\n          columns: [revenue]\n        - interval: 1 week',
      ],
    ],
    problems: [
      'endpoints[1].config.time_column: "country" is of type string; time needs date, timestamp or timestamptz',
      'endpoints[1].config.continuous_aggregates[1].interval: there is already an aggregate of 1 week',
    ],
    warnings: [String(USUAL[0]), String(USUAL[2])],
  },
  {
    says: 'a masked time',
    example: 'readings',
    edits: [['output', 'role: time,', 'role: time, classification: pii.when,']],
    problems: ['endpoints[0].config: "measured_at" is classified pii.when; a masked time cannot order rows'],
  },
  {
    says: 'timeseries without a time',
    example: 'minimal',
    edits: [['serving', 'kind: Serving', 'kind: Serving\nendpoints: [{type: timeseries}]']],
    problems: [
      'endpoints[0].config: timeseries needs a column of type date, timestamp or timestamptz, and output.yaml has none',
    ],
  },
  {
    says: 'a chunk interval and a ttl of other forms',
    edits: [
      ['serving', 'chunk_interval: 2 weeks', 'chunk_interval: 2w'],
      ['serving', 'ttl: 7d', 'ttl: 7 days'],
    ],
    problems: [
      'endpoints[1].config.chunk_interval: must be a number and a unit, for example "1 day" or "2 weeks", not "2w"',
      'endpoints[3].config.ttl: must be a number and h or d, for example 24h, not "7 days"',
    ],
    warnings: USUAL.slice(0, 1),
  },
  {
    says: 'realtime without a key template',
    example: 'minimal',
    edits: [['serving', 'kind: Serving', 'kind: Serving\nendpoints: [{type: realtime}]']],
    problems: ['endpoints[0].config: "key_template" is missing'],
  },
  {
    says: 'a key template without columns, with open braces, or with unknown columns',
    example: 'minimal',
    edits: [
      [
        'serving',
        'kind: Serving',
        'kind: Serving\nendpoints: [{type: realtime, config: {key_template: "c:{cod}:{title}"}}]',
      ],
    ],
    problems: ['endpoints[0].config.key_template: output.yaml has no column "cod"'],
    warnings: [
      'endpoints[0].config.key_template: the template does not hold the whole primary key: of several rows with one key, one is served',
    ],
    hint: 'Did you mean code?',
  },
  {
    says: 'a key template that is none',
    example: 'minimal',
    edits: [
      ['serving', 'kind: Serving', 'kind: Serving\nendpoints: [{type: realtime, config: {key_template: fixed}}]'],
    ],
    problems: [
      'endpoints[0].config.key_template: this is no key template: it has no {column} placeholder, so all rows would share one key',
    ],
  },
  {
    says: 'a key made of a document, and an index of one',
    example: 'readings',
    edits: [
      ['output', 'type: long, nullable: false', 'type: long, role: identity'],
      [
        'serving',
        '  - type: analytics',
        '  - {type: realtime, config: {key_template: "r:{sequence}:{details}"}}\n  - {type: lookup, config: {index_columns: [details]}}',
      ],
    ],
    problems: [
      'endpoints[1].config.key_template: "details" is of type json, which cannot be part of a key',
      'endpoints[2].config.index_columns[0]: "details" is of type json, which cannot be indexed',
    ],
  },
  {
    says: 'nothing of lists of nothing',
    edits: [
      ['serving', '      history_mode: type_2\n      tracked_columns: [country, revenue]', '      tracked_columns: []'],
      [
        'serving',
        'continuous_aggregates:\n        - interval: 1 week\n          columns: [revenue, order_count]',
        'continuous_aggregates: []',
      ],
    ],
    problems: [],
    warnings: USUAL,
  },
  {
    says: 'config of analytics',
    edits: [['serving', 'type: analytics', 'type: analytics\n    config: {ttl: 1h}']],
    problems: ['endpoints[2].config.ttl: there is no field "ttl" here; none is expected'],
    warnings: USUAL,
  },
  {
    says: 'dashboards where there is no server of them, as a warning',
    edits: [['serving', 'enabled: false', 'enabled: true']],
    problems: [],
    warnings: [...USUAL, 'visualization.enabled: this deployment has no dashboard server, so the block has no effect'],
    hint: 'Leave it out, or set dashboards.url.',
  },
  {
    says: 'dashboards with a server of them',
    edits: [['serving', 'enabled: false', 'enabled: true\n  dashboard_template: trend']],
    context: { dashboards: DASHBOARDS },
    problems: [],
    warnings: USUAL,
  },
  {
    says: 'dashboards of what their server cannot read',
    edits: [['serving', 'enabled: false', 'enabled: true']],
    context: { dashboards: { ...DASHBOARDS, endpoints: ['documents'] } },
    problems: ['visualization.enabled: the product has no endpoint that the dashboard server can read'],
    warnings: USUAL,
    hint: 'Add one of type documents.',
  },
  {
    says: 'dashboards of what is restricted',
    edits: [
      ['serving', 'enabled: false', 'enabled: true'],
      ['product', 'classification: confidential', 'classification: restricted'],
    ],
    context: { dashboards: DASHBOARDS },
    problems: [
      'visualization.enabled: a restricted product has no dashboards: who read it must be on record, read by read',
    ],
    warnings: USUAL,
  },
  ...(
    [
      ['trnd', 'there is no dashboard template "trnd"'],
      ["x'; drop table users; --", 'there is no dashboard template "x\'; drop table users; --"'],
      ['map', 'the template "map" needs a column of places'],
    ] as const
  ).map(
    ([template, why]): Case => ({
      says: `the dashboard template ${template}`,
      edits: [['serving', 'enabled: false', `enabled: true\n  dashboard_template: "${template}"`]],
      context: { dashboards: DASHBOARDS },
      problems: [`visualization.dashboard_template: ${why}`],
      warnings: USUAL,
    }),
  ),
]

const ONE_OF =
  'has one of every, as in 15m, cron, as in 0 6 * * MON-FRI, after, a list of products, and max_age, as in 1h'

const COMPUTE: readonly Case[] = [
  {
    says: 'the distributed engine where none outside is configured',
    edits: [['compute', 'engine: embedded', 'engine: distributed']],
    problems: ['engine: this deployment has no engine outside for transforms'],
    warnings: USUAL,
    hint: 'Set compute in the configuration, or use auto or embedded.',
  },
  {
    says: 'the distributed engine with one outside',
    edits: [['compute', 'engine: embedded', 'engine: distributed']],
    context: { distributed: true },
    problems: [],
    warnings: [
      ...USUAL,
      'resources.memory: is not used by the distributed engine',
      'resources.threads: is not used by the distributed engine',
    ],
  },
  ...(
    [
      ['{every: 1h}', []],
      ['{cron: "0 6 * * MON-FRI", time_zone: Europe/Berlin, catch_up: all}', []],
      ['{after: [sales.orders, crm.people]}', []],
      ['{max_age: 90m}', []],
      ['{}', ['schedule: must have at least one member']],
      ['{every: 1h, max_age: 2h}', [`schedule: ${ONE_OF}`]],
      ['{catch_up: one}', [`schedule: ${ONE_OF}`]],
      ['{every: 59s}', ['schedule.every: comes more often than every 60 seconds, which is the least here']],
      [
        '{cron: 61 * * * *}',
        [
          'schedule.cron: is no cron expression. Write minute (0-59), hour (0-23), day of month (1-31), month (1-12) and weekday (0-7 or SUN-SAT): 0 6 * * MON-FRI',
        ],
      ],
      [
        '{cron: 0 6 * * *, time_zone: Mars/Olympus}',
        ['schedule.time_zone: is no time zone. Write its name: UTC, Europe/Berlin'],
      ],
      [
        '{every: 1h, time_zone: Europe/Berlin}',
        ['schedule.time_zone: is for cron, and every goes by no clock. Leave it out'],
      ],
      [
        '{max_age: 1h, time_zone: UTC}',
        ['schedule.time_zone: is for cron, and max_age goes by no clock. Leave it out'],
      ],
      ['{max_age: 30s}', ['schedule.max_age: is shorter than 60 seconds, which is the least here between two runs']],
      [
        '{after: [crm.people], catch_up: none}',
        ['schedule.catch_up: is for every and cron: after names no times that could be missed'],
      ],
      ['{after: [people]}', ['schedule.after[0]: must be namespace.name, not "people"']],
      ['{after: [crm.people, crm.people]}', ['schedule.after[1]: "crm.people" stands there twice']],
      [
        '{after: [crm.people, sales.customer_orders]}',
        ['schedule.after[1]: is the product itself, which would wait for itself'],
      ],
    ] as const
  ).map(
    ([schedule, problems]): Case => ({
      says: `the schedule ${schedule}`,
      edits: [['compute', 'trigger: on_ingestion', `trigger: schedule\nschedule: ${schedule}`]],
      context: { leastScheduleMs: 60_000 },
      problems,
      warnings: USUAL,
    }),
  ),
  {
    says: 'a schedule of another trigger',
    edits: [['compute', 'trigger: on_ingestion', 'trigger: manual\nschedule: {every: 1h}']],
    problems: ['schedule: is for trigger: schedule, and the trigger is manual'],
    warnings: USUAL,
    hint: 'Write trigger: schedule, or remove it.',
  },
  {
    says: 'the trigger schedule without a schedule',
    edits: [['compute', 'trigger: on_ingestion', 'trigger: schedule']],
    problems: ['trigger: there is no schedule to go by'],
    warnings: USUAL,
    hint: 'Add schedule with one of every, cron, after and max_age.',
  },
  {
    says: 'several inputs without a transform',
    edits: [['compute', 'transform: |', 'description: |']],
    problems: [
      ': there are 2 inputs, so a transform must say how they become one',
      'description: unknown field "description"',
    ],
    warnings: USUAL,
  },
  {
    says: 'memory in another form',
    edits: [['compute', 'memory: 1GB', 'memory: 1073741824']],
    problems: ['resources.memory: must be a number and MB or GB, for example 2GB, not 1073741824'],
    warnings: USUAL,
  },
]

describe('parseManifests refuses', () => {
  for (const entry of [...PRODUCT, ...INPUTS, ...OUTPUT, ...QUALITY, ...SERVING, ...COMPUTE]) {
    it(entry.says, async () => {
      const example = entry.example ?? 'customers'
      const parsed = await parseEdited(example, entry.edits, { ...exampleContext(example), ...entry.context })
      assert.deepEqual(inBrief(parsed.problems), entry.problems ?? [])
      if (entry.warnings !== undefined) assert.deepEqual(inBrief(parsed.warnings), entry.warnings)
      const hints = (parsed.ok ? parsed.warnings : parsed.problems.slice(0, 1)).map(({ hint }) => hint)
      if (entry.hint !== undefined) assert.ok(hints.includes(entry.hint), hints.join('\n'))
      assert.equal(parsed.ok, parsed.problems.length === 0)
    })
  }
})

describe('parseManifests', () => {
  it('takes classes that are configured, and long names', async () => {
    const long = `a${'b'.repeat(150)}`
    const parsed = await parseEdited(
      'customers',
      [
        ['output', 'classification: pii.name', 'classification: finance.salary'],
        ['product', 'name: customer_orders', `name: ${long}`],
      ],
      {
        product: { ...EXAMPLES.customers, name: long },
        servingTypes: contractServingTypes(),
        sensitiveClasses: ['finance.salary'],
      },
    )
    assert.deepEqual(inBrief(parsed.problems), [])
  })
})
