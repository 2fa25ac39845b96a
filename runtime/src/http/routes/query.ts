import type { QueryFormat } from '../../operations/queries/asked-query.ts'
import type { QueriesDeps } from '../../operations/queries/deps.ts'
import { type QueryAnswer, runQuery } from '../../operations/queries/query.ts'
import { ageS, freshnessOf } from '../../operations/served/freshness.ts'
import { FRESHNESS } from '../freshness-header.ts'
import { defineRoute, type Reply, type Route } from '../route.ts'
import { QueryResult } from './answers/reads.ts'
import { MASKED_COLUMNS, MASKED_COLUMNS_TEXT, maskedColumnsHeader } from './masked-columns.ts'
import { QueryRequest } from './requests/reads.ts'
import { WITHOUT_VALUES, withoutValuesHeader } from './without-values.ts'

export const FORMATS: Readonly<Record<string, QueryFormat>> = {
  'application/x-ndjson': 'ndjson',
  'text/csv': 'csv',
  'application/vnd.apache.parquet': 'parquet',
}

export const CONTENT_TYPES: Readonly<Record<QueryFormat, string>> = {
  json: 'application/json; charset=utf-8',
  ndjson: 'application/x-ndjson; charset=utf-8',
  csv: 'text/csv; charset=utf-8; header=present',
  parquet: 'application/vnd.apache.parquet',
}

export function queryRoutes(deps: QueriesDeps): readonly Route[] {
  return [
    defineRoute({
      method: 'POST',
      path: '/api/v1/query',
      name: 'query',
      summary: 'Run one read-only SELECT over <namespace>.<product>',
      description:
        'Tables that the caller may read, and their columns, are listed by information_schema.tables, .columns and .schemata, by SHOW TABLES, and by DESCRIBE <namespace>.<product>.',
      tags: ['Query'],
      auth: 'tenant',
      forKeys: 'query',
      body: QueryRequest,
      timeoutMs: 620_000,
      isRead: true,
      responses: {
        200: {
          description: 'Columns and rows.',
          headers: {
            [FRESHNESS]:
              'How many seconds ago the source was read that the oldest of the products are of; absent where none is named.',
            [MASKED_COLUMNS]: MASKED_COLUMNS_TEXT,
            [WITHOUT_VALUES]:
              '`meta.columns_without_values` as JSON, for answers that have no `meta`; absent where no value is missing. Beyond 4 KiB numbers of columns stand in place of their names, or nothing between the braces.',
          },
          schema: QueryResult,
          also: {
            'application/x-ndjson':
              'An object a line. Whole: one with more rows than may leave fails, or is cut off before its end.',
            'text/csv': 'With a header. Whole, as lines are.',
            'application/vnd.apache.parquet': 'A file. Whole, as lines are.',
          },
        },
      },
      errors: [
        'invalid_value',
        'sql_not_allowed',
        'sql_too_long',
        'sql_syntax_error',
        'table_not_found',
        'not_materialized',
        'sql_invalid',
        'unusable_name',
        'query_timeout',
        'query_memory_exceeded',
        'query_result_too_large',
        'query_failed',
        'cpu_time_spent',
        'snapshot_not_found',
        'right_ended',
        'epoch_not_reached',
        'answer_not_consistent',
        'too_many_waiting',
      ],
      async handler(call) {
        const format = FORMATS[call.mediaType ?? ''] ?? 'json'
        const {
          sql,
          params,
          limit,
          timeout_ms: timeoutMs,
          as_of: asOf,
          at_least_epoch: atLeastEpoch,
          consistent,
        } = call.body
        const answer = await runQuery(deps, call, {
          sql,
          format,
          ...(params === undefined ? {} : { params }),
          ...(limit === undefined ? {} : { limit }),
          ...(timeoutMs === undefined ? {} : { timeoutMs }),
          ...(asOf === undefined ? {} : { asOf }),
          ...(atLeastEpoch === undefined ? {} : { atLeastEpoch }),
          ...(consistent === undefined ? {} : { consistent }),
        })
        return replyOf(answer, format)
      },
    }),
  ]
}

export function replyOf(answer: QueryAnswer, format: QueryFormat): Reply {
  const chunks = format === 'json' ? jsonChunks(answer) : answer.run.output
  const ages = Object.values(answer.made).map(({ readAt }) => ageS(readAt))
  const freshness: Readonly<Record<string, string>> =
    ages.length === 0 ? {} : { [FRESHNESS]: String(Math.max(...ages)) }
  return {
    headers: {
      ...(format === 'json' ? {} : maskedColumnsHeader(answer.columns)),
      ...withoutValuesHeader(answer.withoutValues),
      ...freshness,
    },
    stream: { contentType: CONTENT_TYPES[format], chunks },
  }
}

/** The rows pass through as the engine wrote them; what is known only at the end stands behind them. */
async function* jsonChunks(answer: QueryAnswer): AsyncGenerator<string | Uint8Array> {
  yield `{"columns":${JSON.stringify(answer.columns)},"rows":[`
  yield* answer.run.output
  const summary = await answer.run.finished
  const meta = {
    engine: answer.engine,
    elapsed_ms: Math.round(performance.now() - answer.startedAtMs),
    snapshots: answer.snapshots,
    epochs: mapValues(answer.made, ({ epoch }) => epoch),
    consistent: answer.isConsistent,
    freshness: mapValues(answer.made, ({ readAt }) => freshnessOf(readAt)),
    ...(Object.keys(answer.withoutValues).length === 0 ? {} : { columns_without_values: answer.withoutValues }),
  }
  yield `],"row_count":${summary.rows},"truncated":${summary.truncated},"meta":${JSON.stringify(meta)}}`
}

function mapValues<T, U>(record: Readonly<Record<string, T>>, to: (value: T) => U): Readonly<Record<string, U>> {
  return Object.fromEntries(Object.entries(record).map(([name, value]) => [name, to(value)]))
}
