/**
 * The runtime is killed by SIGKILL at every fault point, and goes on as if nothing had happened. SLUICE_CRASH_KILLS
 * asks for so many further kills, at fault points and times that SLUICE_CRASH_SEED chooses.
 */
import { strict as assert } from 'node:assert'
import { after, before, describe, it } from 'node:test'
import { FAULT_POINTS } from '../../runtime/src/fault-points.ts'
import { type Kill, Scenario } from './scenario.ts'
import { Seeded } from './seeded.ts'

/** Places inside the built-in stores and the connector. */
const PLUGIN_POINTS = [
  'postgresql.after-snapshot',
  'postgresql.before-state',
  'lookup.after-stage',
  'lookup.before-commit',
  'lookup.after-commit',
  'timeseries.after-stage',
  'timeseries.before-commit',
  'timeseries.after-commit',
  'realtime.after-begin',
  'realtime.before-commit',
  'realtime.after-commit',
  'analytics.before-register',
  'analytics.after-register',
] as const

const seed = Number(process.env['SLUICE_CRASH_SEED'] ?? Date.now() % 1_000_000)
const wantedKills = Number(process.env['SLUICE_CRASH_KILLS'] ?? 0)
const SLOWEST_KILL_MS = 6_000

describe(`a runtime that is killed (seed ${seed})`, () => {
  let scenario: Scenario

  before(async () => {
    scenario = await Scenario.open(seed)
  })

  after(async () => {
    await scenario?.close()
  })

  it('goes on after a kill at every fault point', async () => {
    let waiting: readonly Kill[] = FAULT_POINTS.map((point) => ({ point: `${point}@1` }))
    while (waiting.length > 0 || scenario.isArmed) waiting = await scenario.step(waiting)
    for (const point of FAULT_POINTS) assert.equal(scenario.tally.hit.get(point), 1, `${point} was reached`)
    await scenario.checkAllEpochs()
  })

  it('refuses a second runtime on its folder and names the first', async () => {
    const { code, output, firstPid } = await scenario.startSecond()
    assert.notEqual(code, 0)
    assert.match(output, new RegExp(`in use by another process \\(pid ${firstPid}\\b`))
  })

  it('leaves nothing behind when it is stopped', async () => {
    await scenario.stop()
  })

  it('goes on after kills anywhere', { skip: wantedKills === 0 && 'SLUICE_CRASH_KILLS asks for them' }, async () => {
    const random = new Seeded(seed + 1)
    const end = scenario.kills + wantedKills
    let waiting: readonly Kill[] = []
    while (scenario.kills < end) {
      while (waiting.length < 4) waiting = [...waiting, anyKill(random)]
      waiting = await scenario.step(waiting)
      console.log(`seed ${seed}: ${scenario.kills} kills, ${scenario.tally.runs} runs checked`)
      if (random.below(8) === 0) await scenario.stop()
    }
    await scenario.checkAllEpochs()
    await scenario.stop()
    console.log(report(scenario))
  })
})

function anyKill(random: Seeded): Kill {
  if (random.below(5) === 0) return { afterMs: random.below(SLOWEST_KILL_MS) }
  const points = [...FAULT_POINTS, ...PLUGIN_POINTS]
  return { point: `${random.pick(points)}@${1 + random.below(2)}` }
}

function report({ tally, kills }: Scenario): string {
  const hit = [...tally.hit].sort().map(([name, count]) => `  ${name}: ${count}`)
  return [`seed ${seed}: ${kills} kills, ${tally.starts} starts, ${tally.runs} runs checked`, ...hit].join('\n')
}
