import type { QueriesDeps } from '../../operations/queries/deps.ts'
import { MAX_LABELS } from '../../operations/queries/training-labels.ts'
import { MAX_FEATURES, runTrainingSet } from '../../operations/queries/training-set.ts'
import { FRESHNESS } from '../freshness-header.ts'
import { defineRoute, type Route } from '../route.ts'
import { QueryResult } from './answers/reads.ts'
import { MASKED_COLUMNS, MASKED_COLUMNS_TEXT } from './masked-columns.ts'
import { FORMATS, replyOf } from './query.ts'
import { TrainingSetRequest } from './requests/training-sets.ts'

/** Labels are many and small. */
const MAX_VALUES = 200_000

export function trainingSetRoutes(deps: QueriesDeps): readonly Route[] {
  return [
    defineRoute({
      method: 'POST',
      path: '/api/v1/training-sets',
      name: 'makeTrainingSet',
      summary: 'Rows for training a model: to each label what was known at its time',
      description: `Every label comes back once, in its order, with the columns of each feature beside it: of the newest row of the product that has the same key and is no later than the label, or null. Of rows of one time that one counts which has the greatest key. Up to ${MAX_LABELS} labels of a body, of a product as many as an answer may have rows; up to ${MAX_FEATURES} features, each of which takes a request of the rate limit. Columns that are masked for the caller cannot be a key or a time, and come masked.`,
      tags: ['Query'],
      auth: 'tenant',
      forKeys: 'query',
      body: TrainingSetRequest,
      mostValues: MAX_VALUES,
      tokens: ({ features }) => features.length,
      timeoutMs: 620_000,
      isRead: true,
      responses: {
        200: {
          description:
            'The labels with their features. Whole: one with more rows than may leave fails, or is cut off before its end.',
          headers: {
            [MASKED_COLUMNS]: MASKED_COLUMNS_TEXT,
            [FRESHNESS]: 'How many seconds ago the source was read that the oldest of the products are of.',
          },
          usual: 'application/vnd.apache.parquet',
          schema: QueryResult,
          also: {
            'application/vnd.apache.parquet': 'A file; what comes where Accept does not choose.',
            'application/x-ndjson': 'An object a line.',
            'text/csv': 'With a header.',
          },
        },
      },
      errors: [
        'training_set_invalid',
        'invalid_value',
        'unknown_column',
        'product_not_found',
        'ambiguous_product',
        'not_materialized',
        'snapshot_not_found',
        'snapshot_not_masked',
        'mask_pending',
        'column_masked',
        'query_timeout',
        'query_memory_exceeded',
        'query_result_too_large',
        'query_failed',
        'cpu_time_spent',
        'right_ended',
      ],
      async handler(call) {
        const format = FORMATS[call.mediaType ?? ''] ?? 'json'
        return replyOf(await runTrainingSet(deps, call, { ...call.body, format }), format)
      },
    }),
  ]
}
