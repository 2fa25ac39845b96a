/** Every code that the sources throw is in the table of answers, or is known never to need a line of its own there. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ERROR_CODES } from '../runtime/src/http/codes.ts'
import { sourceFiles } from './sources.ts'

/** Families that are answered by their kind alone: the code is for logs of runs and for operators. */
const FAMILIES: readonly (readonly [RegExp, string])[] = [
  [/^postgres_/, 'the embedded server: met when the process starts, before anything is answered'],
  [
    /^(data_folder_in_use|master_key_|issuer_|settings_invalid|invalid_settings|invalid_config|unknown_driver|migration_|token_ttl_invalid)/,
    'configuration: met when the process starts, or by the command',
  ],
  [/^database_/, 'the registry’s server: a client can do no more about it than the kind says'],
  [/^lake_/, 'the lake: kept in a run’s record'],
  [/^engine_/, 'engine processes: the kind says whether to try again'],
  [
    /^(store_|epoch_|older_epoch|plan_stale|stale_|fenced|truncated_change_set|not_provisioned|policy_missing|object_)/,
    'serving stores and their fences: handled by the materializer',
  ],
  [
    /^(source_|connector_|cleartext_password_refused|host_not_found|login_refused|discover_position_invalid|incremental_not_possible|run_attempts_exhausted)/,
    'sources: shown in a run’s record or as a step of a connection’s test',
  ],
  [
    /^(row_|duplicate_key|missing_key|missing_time|required_value_missing|time_out_of_range|too_many_chunks|schema_conflict)/,
    'rows that a store refuses: kept in a run’s record',
  ],
  [
    /^(aborted|internal|event_unknown|idempotency_taken_over|secret_unreadable|tenant_key_missing)$/,
    'faults of the process itself: answered as internal_error, or nobody waits any more',
  ],
]

/** Codes of Node, which the sources compare with but never throw. */
const FOREIGN = /^[A-Z][A-Z0-9_]+$/

function codesInUse(): ReadonlyMap<string, string> {
  const files = sourceFiles(['runtime/src/**/*.ts', 'plugins/**/*.ts', 'sdk/**/*.ts']).filter(
    ({ path }) => !/\.(test|fixture)\.ts$/.test(path) && !/test-?(data|server|ing)|\/zz_/.test(path),
  )
  return new Map(
    files.flatMap(({ path, text }) =>
      [...text.matchAll(/\bcode: '([^']+)'/g)].map((match) => [match[1] as string, path]),
    ),
  )
}

test('every code in use is in the table or in a family that needs no line', () => {
  const unknown = [...codesInUse()].filter(
    ([code]) =>
      !FOREIGN.test(code) && !Object.hasOwn(ERROR_CODES, code) && !FAMILIES.some(([names]) => names.test(code)),
  )
  assert.deepEqual(unknown, [])
})

test('no family is listed that nothing uses', () => {
  const codes = [...codesInUse().keys()]
  const unused = FAMILIES.filter(([names]) => !codes.some((code) => names.test(code)))
  assert.deepEqual(unused, [])
})

test('codes are snake_case and statuses are those of refusals and faults', () => {
  for (const [code, { status, title, remedy }] of Object.entries(ERROR_CODES)) {
    assert.match(code, /^[a-z]+(_[a-z]+)*$/)
    assert.ok(status >= 400 && status < 600, code)
    assert.ok(title.length > 0 && remedy.endsWith('.'), code)
  }
})
