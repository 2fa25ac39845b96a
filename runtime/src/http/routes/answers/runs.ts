/** Runs, rows that they put aside, and the audit log, as answers have them. */

import { Type } from 'typebox'
import { RUN_STATES, RUN_TRIGGERS } from '../../../registry/runs.ts'
import { anything, count, Failure, nullable, oneOf, text, time } from './parts.ts'
import { deleteMode } from './products.ts'

/** Endpoints of a product in a run. */
export const stores = () =>
  Type.Array(
    Type.Object({
      endpoint: text(),
      state: oneOf(['writing', 'ok', 'failed']),
      epoch: nullable(count('That it serves; null: none.')),
      error: nullable(Failure),
    }),
  )

const runFields = {
  id: text(),
  tenant_id: text(),
  kind: oneOf(['ingestion', 'materialization']),
  connection_id: nullable(text()),
  product_id: nullable(text()),
  state: oneOf(RUN_STATES),
  trigger: oneOf(RUN_TRIGGERS),
  replay: Type.Boolean({
    description:
      'It tries rows of a quarantine again and reads none of the source: rows_read of a table is the sum of rows_written, rows_superseded and rows_rejected.',
  }),
  attempt: count(),
  tables: Type.Array(
    Type.Object({
      name: text(),
      mode: text(),
      rows_read: count('The next power of ten, for who may not read the raw table.'),
      mode_reason: nullable(text()),
      deletes: deleteMode(),
      deletes_reason: nullable(text('Why they are left unseen.')),
      rows_written: count('The next power of ten, for who may not read the raw table.'),
      rows_rejected: count(
        'Left out of the table, because they cannot be carried; those that are left out of some products alone are told by the check rows_carried of these. The quarantine of the connection lists them. The next power of ten, for who may not read the raw table.',
      ),
      rows_removed: nullable(count('Rows that were gone, by a read of the keys; null: none was made.')),
      rows_superseded: nullable(
        count(
          'Rows that left the quarantine for good, because the table has a newer one of their key or the source none. Null: of a run that tries no rows again. The next power of ten, for who may not read the raw table.',
        ),
      ),
      bytes: nullable(count('Null: for who may not read the raw table.')),
      state: oneOf(['pending', 'running', 'succeeded', 'failed']),
      cursor: nullable(text()),
      error: nullable(Failure),
    }),
  ),
  products: Type.Array(
    Type.Object({
      id: text(),
      name: Type.Optional(text('namespace.name')),
      materialization_id: nullable(text()),
      epoch: Type.Optional(nullable(count('That was published; null: nothing was.'))),
      state: oneOf(['succeeded', 'degraded', 'failed', 'skipped']),
      rows: Type.Optional(nullable(count())),
      quarantined_rows: Type.Optional(
        nullable(count('Null where not everybody may know it, or you may not by the classes of today.')),
      ),
      lossy_values: Type.Optional(
        Type.Record(Type.String(), count(), {
          description:
            'By column that you may see by the classes of today, of those that nobody’s view hid when it was made.',
        }),
      ),
      behind: Type.Optional(Type.Array(text(), { description: 'Endpoints that do not serve the epoch yet.' })),
      stores: Type.Optional(stores()),
      current_epoch: Type.Optional(nullable(count('The newest after the run; null: there is none.'))),
      reason: Type.Optional(nullable(Failure)),
    }),
    { description: 'Those that the caller may read.' },
  ),
  progress: nullable(
    Type.Object(
      {
        product_id: text(),
        product: text('namespace.name'),
        phase: oneOf(['making', 'writing']),
        epoch: nullable(count('That is published; null while its rows are made.')),
        stores: stores(),
      },
      {
        description:
          'The product that is being made while the run goes on, if you may read it; tables that are being read are among the tables.',
      },
    ),
  ),
  created_at: time(),
  started_at: nullable(time()),
  finished_at: nullable(time()),
  error: nullable(Failure),
  waiting: nullable(
    Type.Object(
      { code: text(), message: text(), remedy: text(), until: time() },
      { description: 'Why a queued run does not begin yet, and when it will; null where it waits for a place only.' },
    ),
  ),
}

export const Run = Type.Object(runFields, { $id: 'Run' })

export const RunDetail = Type.Object(
  {
    ...runFields,
    failed_checks: Type.Array(
      Type.Object({
        product: text('namespace.name'),
        check: text(),
        severity: oneOf(['error', 'warn']),
        violations: nullable(count('Null: the check could not be run.')),
        total: nullable(count()),
        summary: text('With the first row, where you may see it: 3 of 1,000 rows, first: id=7 price=-1'),
      }),
      { description: 'Of the products that you may read, and the checks whose columns you may see.' },
    ),
    log: Type.Array(Type.Object({ at: time(), level: text(), message: text() })),
  },
  { $id: 'RunDetail' },
)

export const QuarantinedRow = Type.Object(
  {
    id: text(),
    table: text('schema.table'),
    column: nullable(text('At fault, where it is one.')),
    reason: text(),
    key: nullable(
      Type.Record(Type.String(), nullable(Type.String()), {
        description:
          'The key of the row, as the texts that reads in CSV have, by column; null where the source gives none.',
      }),
    ),
    raw: nullable(
      text('What cannot be carried, in the source’s words, cut where it is long; null where it gives nothing.'),
    ),
    carried: Type.Boolean({
      description:
        'The row came all the same, with null in the column: products that use the column are made without the row.',
    }),
    replayable: Type.Boolean({ description: 'The row is kept as a whole, so that it can be tried again.' }),
    not_replayable_reason: nullable(text('Null where it can be.')),
    run_id: text('The run that left the row, or the value, out.'),
    created_at: time(),
  },
  { $id: 'QuarantinedRow' },
)

export const AuditEntry = Type.Object(
  {
    id: text(),
    tenant_id: nullable(text()),
    at: time(),
    actor: anything(),
    action: text(),
    object: Type.Object({ type: text(), id: nullable(text()) }),
    outcome: oneOf(['allowed', 'denied', 'failed']),
    request_id: nullable(text()),
    details: anything(),
  },
  { $id: 'AuditEntry' },
)
