import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Config, loadConfig } from '../config.ts'
import { enginesOfAll, foldersOf, sharedConfig } from './process-shares.ts'

const configOf = (processes: number, settings: Readonly<Record<string, string>> = {}): Config =>
  loadConfig({ environment: { SLUICE_HTTP__PROCESSES: String(processes), ...settings }, flags: {} })

const sharesOf = (config: Config) =>
  Array.from({ length: config.http.processes }, (_, at) =>
    sharedConfig(config, { index: at + 1, of: config.http.processes }),
  )

/** What each process counts by itself, by what it is called. */
const COUNTED: Readonly<Record<string, (config: Config) => number>> = {
  connections: ({ limits }) => limits.connections,
  query_cache_mb: ({ limits }) => limits.query_cache_mb,
  change_spool_mb: ({ limits }) => limits.change_spool_mb,
  event_streams: ({ limits }) => limits.event_streams,
  engine_processes: ({ limits }) => limits.engine_processes,
  workers: ({ limits }) => limits.workers,
  followed_connections: ({ limits }) => limits.followed_connections,
  address: ({ limits }) => limits.rate.address,
}

test('one process has everything, as it is configured', () => {
  const config = configOf(1)
  assert.equal(sharedConfig(config, { index: 1, of: 1 }), config)
})

test('several have together what one would have', () => {
  const enough = { SLUICE_LIMITS__ENGINE_PROCESSES: '16', SLUICE_LIMITS__EVENT_STREAMS: '9' }
  for (const processes of [2, 3, 4, 8]) {
    const whole = configOf(processes, enough)
    const shares = sharesOf(whole)
    for (const [name, of] of Object.entries(COUNTED)) {
      const sum = shares.reduce((all, one) => all + of(one), 0)
      assert.ok(sum <= of(whole), `${name}: ${sum} of ${of(whole)} in ${processes} processes`)
      assert.ok(sum > of(whole) - processes, `${name}: ${sum} of ${of(whole)} in ${processes} processes`)
    }
  }
})

test('each has two engine processes at least, since of a single one a tenant could have all', () => {
  const whole = configOf(4)
  assert.deepEqual(
    sharesOf(whole).map(({ limits }) => limits.engine_processes),
    [2, 2, 2, 2],
  )
  assert.equal(enginesOfAll(whole), 8)
  assert.equal(enginesOfAll(configOf(1)), whole.limits.engine_processes)
})

test('runs are the first one’s, and what a process writes for itself lies apart', () => {
  const whole = configOf(2)
  const [first, second] = sharesOf(whole)
  assert.deepEqual([first?.limits.workers, second?.limits.workers], [whole.limits.workers, 0])
  const folders = [1, 2].flatMap((index) => Object.values(foldersOf(whole, { index, of: 2 })))
  assert.equal(new Set(folders).size, 4)
})
