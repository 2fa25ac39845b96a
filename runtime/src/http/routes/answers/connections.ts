/** Connections and what is known of their sources, as answers have them. */

import { Type } from 'typebox'
import { RUN_STATES, RUN_TRIGGERS } from '../../../registry/runs.ts'
import { CATCH_UPS, SKIP_REASONS } from '../../../registry/schedules.ts'
import { count, nullable, oneOf, text, time } from './parts.ts'

const Following = nullable(
  Type.Object(
    {
      since: nullable(
        Type.String({ format: 'date-time', description: 'Since when a runtime waits for changes; null: none does.' }),
      ),
      behind_since: nullable(
        Type.String({ format: 'date-time', description: 'When the first change came that no run has taken yet.' }),
      ),
      lag_s: Type.Number({ minimum: 0, description: 'How long that one has waited; 0: all that came was taken.' }),
      error_code: nullable(text('Why the source could not be followed at the last try.')),
      held: count('Tables and products that failed by themselves, and are tried again later; the last run names them.'),
    },
    { description: 'Of a connection with a continuous schedule. Its newest epoch is what last_run made.' },
  ),
)

export const scheduleFields = {
  schedule: nullable(
    Type.Object(
      {
        every: Type.Optional(text()),
        cron: Type.Optional(text()),
        time_zone: Type.Optional(text()),
        after: Type.Optional(Type.Array(text(), { description: 'Products: each has to have a new epoch.' })),
        max_age: Type.Optional(text()),
        continuous: Type.Optional(Type.Object({ max_delay: text() })),
        catch_up: Type.Optional(oneOf(CATCH_UPS)),
      },
      { description: 'When runs begin by themselves; null: when somebody asks.' },
    ),
  ),
  next_run_at: nullable(
    Type.String({
      format: 'date-time',
      description:
        'Null without a schedule, and where nobody knows it: after other products, and where changes are followed. Of a product with max_age, for its readers, on its own page.',
    }),
  ),
  last_run: nullable(
    Type.Object(
      {
        id: text(),
        state: oneOf(RUN_STATES),
        trigger: oneOf(RUN_TRIGGERS),
        created_at: time(),
        finished_at: nullable(time()),
      },
      { description: 'The newest of its own, whoever asked for it. What syncs make of a product is part of theirs.' },
    ),
  ),
  schedule_state: nullable(
    Type.Object({
      set_by: text(),
      right_lost: Type.Boolean({
        description: 'Whoever set it may not sync any more, by the newest token: no run begins.',
      }),
      breaker: oneOf(['closed', 'open', 'half_open']),
      failures: count('Runs that failed one after the other.'),
      open_until: nullable(time()),
      skipped_at: nullable(Type.String({ format: 'date-time', description: 'The newest tick that began no run.' })),
      skipped_reason: nullable(oneOf(SKIP_REASONS)),
    }),
  ),
}

const SourceLog = nullable(
  Type.Object(
    {
      capture: text('What the source calls it.'),
      generation: Type.Number({
        description: 'One more each time when the log was begun anew, and all its tables read whole.',
      }),
      source_time: nullable(time()),
      read_at: nullable(time()),
      state: nullable(oneOf(['ok', 'at_risk', 'lost', 'unreachable', 'released'])),
      message: nullable(text()),
      remedy: nullable(text()),
      retained_bytes: nullable(
        Type.Number({ description: 'What the source keeps for us alone; null: it does not say.' }),
      ),
      limit_bytes: nullable(Type.Number({ description: 'How much it keeps before it lets go; null: without end.' })),
      checked_at: nullable(time()),
      begun_anew_at: nullable(time()),
      begun_anew_reason: nullable(text()),
      spooled: Type.Object(
        {
          bytes: count('Compressed.'),
          pieces: count('Each is applied by itself, in the order of the log.'),
          since: nullable(time()),
          full_since: nullable(
            Type.String({ format: 'date-time', description: 'Since when no more is taken up, for lack of room.' }),
          ),
        },
        { description: 'What was taken up of it while the lake could not be written, and is not in the lake yet.' },
      ),
    },
    { description: 'The log that inputs in mode cdc are read by; null: none is.' },
  ),
)

export const Connection = Type.Object(
  {
    id: text(),
    tenant_id: text(),
    name: text(),
    connector_type: text(),
    config: Type.Record(Type.String(), Type.Unknown(), { description: 'Secrets are shown as "********".' }),
    status: oneOf(['untested', 'ok', 'failed']),
    last_tested_at: nullable(time()),
    source_since: nullable(
      Type.String({
        format: 'date-time',
        description: 'Since when it leads to another source than before: what was read until then counts no more.',
      }),
    ),
    created_by: text('Whose it is: who else changes where it leads is an administrator.'),
    created_at: time(),
    updated_at: time(),
    log: SourceLog,
    following: Following,
    ...scheduleFields,
  },
  { $id: 'Connection' },
)

export const ConnectionLag = Type.Object(
  {
    connection_id: text(),
    connection: text(),
    next_run_at: scheduleFields.next_run_at,
    last_run: scheduleFields.last_run,
    breaker: nullable(oneOf(['closed', 'open', 'half_open'])),
    log: SourceLog,
    following: Following,
    tables: Type.Array(
      Type.Object({
        table: text('schema.table'),
        read_at: nullable(
          Type.String({
            format: 'date-time',
            description: 'When the newest read began that succeeded; null: none has.',
          }),
        ),
        age_s: nullable(Type.Number({ description: 'Since then.' })),
        last_read: nullable(
          Type.Object(
            {
              run_id: text(),
              state: oneOf(['pending', 'running', 'succeeded', 'failed']),
              error_code: nullable(text()),
              at: time(),
            },
            { description: 'The newest that was tried.' },
          ),
        ),
        backfill_asked_at: nullable(
          Type.String({
            format: 'date-time',
            description: 'The next read is of the whole table, as was asked for then.',
          }),
        ),
      }),
    ),
  },
  { $id: 'ConnectionLag' },
)

export const TestReport = Type.Object(
  {
    ok: Type.Boolean(),
    latency_ms: Type.Number({ minimum: 0 }),
    server_version: nullable(text()),
    checks: Type.Array(
      Type.Object({ name: text(), ok: Type.Boolean(), message: text(), remedy: Type.Optional(text()) }),
    ),
    remedy: Type.Optional(text('Of the step that failed.')),
  },
  { $id: 'TestReport' },
)

export const Discovery = Type.Object(
  {
    tables: Type.Array(
      Type.Object({
        schema: text(),
        name: text(),
        kind: text(),
        estimated_rows: nullable(Type.Number()),
        primary_key: Type.Array(text()),
        columns: Type.Array(
          Type.Object({
            name: text(),
            type: text(),
            source_type: text(),
            nullable: Type.Boolean(),
            classes: Type.Array(text(), {
              description: 'That products give to it and that hide it; told to who may read the table, else none.',
            }),
          }),
        ),
        suggested_cursor: nullable(text()),
      }),
    ),
  },
  { $id: 'Discovery' },
)
