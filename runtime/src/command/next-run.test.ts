/** What `connection lag` says comes next: never that nothing does where changes are followed, and what to do after failures. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { nextSync, type SyncAnswer } from './next-run.ts'

const following = { since: '2026-11-29T08:00:00.000Z', lag_s: 0, error_code: null, held: 0 }
const log = { state: 'ok', message: 'the log is kept', remedy: null }
const quiet: SyncAnswer = {
  connection: 'db',
  next_run_at: null,
  last_run: { id: 'run_1', state: 'succeeded' },
  breaker: null,
  log: null,
  following: null,
}
const OTHERS = 'Tables that are not in mode cdc and not pushed are read when a sync is asked for.'

test('what comes next of a connection by its schedule, its log and its last run', () => {
  const said: readonly [Partial<SyncAnswer>, readonly string[]][] = [
    [{}, ['No sync begins by itself.']],
    [{ next_run_at: '2026-11-29T09:00:00.000Z' }, ['The next sync begins at 2026-11-29T09:00:00.000Z.']],
    [{ following, breaker: 'closed', log }, [`It follows changes, all taken. ${OTHERS}`]],
    [{ following: { ...following, lag_s: 12.34 }, log }, [`It follows changes, 12.3 s behind. ${OTHERS}`]],
    [
      { following: { ...following, since: null, error_code: 'source_unreachable' } },
      [`It follows no changes now (source_unreachable). ${OTHERS}`],
    ],
    [
      { following: { ...following, held: 2 } },
      [
        `It follows changes, all taken, 2 tried again later. ${OTHERS}`,
        'sluice logs run_1 tells why. sluice sync db tries again now.',
      ],
    ],
    [
      { following, breaker: 'open', last_run: { id: 'run_2', state: 'failed' } },
      [
        `It follows no changes (waits after failures). ${OTHERS}`,
        'sluice logs run_2 tells why. sluice sync db tries again now.',
      ],
    ],
    [
      {
        next_run_at: '2026-11-29T09:00:00.000Z',
        breaker: 'open',
        last_run: { id: 'run_2', state: 'failed' },
        log: { state: 'at_risk', message: 'it is nearly full', remedy: 'Sync now' },
      },
      [
        'The next sync begins at 2026-11-29T09:00:00.000Z. It waits after failures.',
        'Its log is at_risk: it is nearly full. Sync now',
        'sluice logs run_2 tells why. sluice sync db tries again now.',
      ],
    ],
    [
      { log: { ...log, spooled: { bytes: 512, since: '2026-11-29T08:00:00.000Z', full_since: null } } },
      ['No sync begins by itself.', 'Since 2026-11-29T08:00:00.000Z its log waits for the lake: 512 bytes.'],
    ],
    [
      {
        log: {
          ...log,
          spooled: { bytes: 512, since: '2026-11-29T08:00:00.000Z', full_since: '2026-11-29T08:30:00.000Z' },
        },
      },
      [
        'No sync begins by itself.',
        'Since 2026-11-29T08:00:00.000Z its log waits for the lake: 512 bytes. There is no room for more of it.',
      ],
    ],
    [{ log: { ...log, spooled: { bytes: 0, since: null, full_since: null } } }, ['No sync begins by itself.']],
  ]
  for (const [answer, lines] of said) assert.deepEqual(nextSync({ ...quiet, ...answer }), lines)
})
