/** How long point reads of a store take here and now: told in the report, and never a reason to fail. */
import type { ReadOperation } from '@sluice/sdk'
import { CheckContext, type ContextParts } from './context.ts'
import { answerOf, pointPlan } from './reading.ts'
import { rowsOf, SIMPLE } from './shapes.ts'
import type { SuiteOptions } from './suite.ts'

const ROWS = 1000
const WARM_UP = 50
const READS = 400

export interface Measurement {
  readonly name: string
  readonly p50Ms: number
  readonly p99Ms: number
}

/** Reads one row at a time by each operation that can, in a store of its own. */
export async function measureReads(options: SuiteOptions): Promise<readonly Measurement[]> {
  const fixture = await options.start()
  const { plugin, knobs = {}, level = 'core', seed = 1 } = options
  // A store over the lake is measured with an engine that is not the runtime's: that would say nothing.
  if (plugin.capabilities.commit === 'lake') return fixture.stop().then(() => [])
  try {
    return await measured({ plugin, fixture, knobs, level, seed, label: 'measure', lake: null })
  } finally {
    await fixture.stop()
  }
}

async function measured(parts: ContextParts): Promise<readonly Measurement[]> {
  const context = await CheckContext.open(parts)
  try {
    const dataset = await context.dataset(SIMPLE)
    const rows = rowsOf(SIMPLE, 1, ROWS, context.random)
    await dataset.full(rows)
    const { target, candidates, template } = dataset
    const measurements: Measurement[] = []
    for (const way of dataset.ways().filter((name) => name === 'get' || name === 'key')) {
      measurements.push(
        await timed(way, async (index) => {
          const row = rows[(index * 7) % ROWS] ?? []
          await answerOf(context.store, target, pointPlan(way, row, { target, candidates, template }))
        }),
      )
    }
    return measurements
  } finally {
    await context.dispose()
  }
}

async function timed(way: ReadOperation, read: (index: number) => Promise<void>): Promise<Measurement> {
  const times: number[] = []
  for (let index = 0; index < WARM_UP + READS; index += 1) {
    const startedMs = performance.now()
    await read(index)
    if (index >= WARM_UP) times.push(performance.now() - startedMs)
  }
  times.sort((left, right) => left - right)
  const at = (share: number) => Number((times[Math.floor(share * (times.length - 1))] ?? 0).toFixed(3))
  return { name: `${way} of one row`, p50Ms: at(0.5), p99Ms: at(0.99) }
}
