/** Snapshots and what checks found, as answers have them. */

import { Type } from 'typebox'
import { COMPARED_METRICS, METRICS } from '../../../manifest/files/quality.ts'
import { count, nullable, oneOf, text, time } from './parts.ts'

export const quality = {
  checks: Type.Array(
    Type.Object({
      name: text(),
      severity: oneOf(['error', 'warn']),
      dimension: text(),
      weight: Type.Number(),
      on_error: text(),
      passed: Type.Boolean(),
      learning: Type.Boolean({
        description:
          'It knows too few epochs to judge, or found nothing to measure as in epochs before: it has passed, and counts for no score.',
      }),
      violations: nullable(Type.Number()),
      total: nullable(Type.Number()),
      measured: nullable(
        Type.Object(
          {
            metric: oneOf(METRICS),
            column: nullable(text()),
            value: nullable(
              Type.Number({
                description: 'Null: there was nothing to measure; where each epoch had something, it has not passed.',
              }),
            ),
            lower: nullable(
              Type.Number({ description: 'It passes from here; null: any, or it is learning, or has no value.' }),
            ),
            upper: nullable(
              Type.Number({ description: 'It passes up to here; null: any, or it is learning, or has no value.' }),
            ),
            epochs: count('How many epochs it has learned from.'),
          },
          {
            description: 'Of an anomaly check that could be run: what it measured, and the bounds that it has learned.',
          },
        ),
      ),
      compared: nullable(
        Type.Object(
          {
            metric: oneOf(COMPARED_METRICS),
            column: nullable(text()),
            former: nullable(
              Type.Number({ description: 'Of rows and null_share: what the rows that were served have.' }),
            ),
            now: nullable(Type.Number({ description: 'The same of the new version.' })),
            at_most: Type.Union([Type.Number(), Type.String()], { description: 'Rows, or a percentage.' }),
            accepted: Type.Boolean({ description: 'Whether it was deployed with its differences accepted.' }),
          },
          {
            description:
              'Of the first materialization of a new version: a bound of `new_version`, against the rows that were served. Its violations are what differs. Null: it is a check.',
          },
        ),
      ),
      expected: Type.Optional(
        Type.Object(
          {
            product_id: text(),
            product: text('namespace.name'),
            owner: nullable(text('Its team, or an address.')),
            name: text('What it calls the expectation.'),
            severity: oneOf(['error', 'warn']),
            also_served: nullable(
              Type.Boolean({
                description:
                  'Whether the rows that were in service fail it as well, so that it kept nothing from being published. Null: nobody has looked, or it could not be said.',
              }),
            ),
          },
          {
            description:
              'Of what a product that is made of this one expects of its rows; it counts for no score. The severity of the result is `error` where it kept them from being published. Absent: it is a check of this product.',
          },
        ),
      ),
      violating: nullable(
        Type.Object(
          {
            columns: Type.Array(text()),
            masked_columns: Type.Array(text()),
            rows: Type.Array(Type.Array(nullable(text())), { maxItems: 100 }),
          },
          {
            description:
              'Of the newest materialization, where the check failed: the first rows that it found bad, by their identity and the columns that the check names, as the text that a read in CSV has, of at most 200 characters. Null: the check speaks of no rows, or you may not see them.',
          },
        ),
      ),
    }),
  ),
  by_dimension: Type.Record(Type.String(), Type.Number()),
}

const snapshotFields = {
  id: text(),
  epoch: nullable(count('Null: its checks kept it from being published.')),
  state: oneOf(['committed', 'blocked']),
  kind: oneOf(['materialize', 'rollback']),
  version: text(),
  snapshot_id: nullable(text('For as_of and for a rollback.')),
  rows: nullable(count()),
  quarantined_rows: nullable(count('Null for who may not see the columns that the checks look at.')),
  lossy_values: Type.Record(Type.String(), count(), {
    description: 'By column that you may see: values that lost something by the cast to its type.',
  }),
  quality_score: nullable(Type.Number({ minimum: 0, maximum: 100 })),
  committed_at: nullable(time()),
  run_id: nullable(text()),
}

export const Snapshot = Type.Object(snapshotFields, { $id: 'Snapshot' })

export const QualityResult = Type.Object(
  { ...snapshotFields, quality: nullable(Type.Object(quality)) },
  { $id: 'QualityResult' },
)
