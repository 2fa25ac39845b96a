/** What is left of reads that have ended: nothing, however many they were. Measured in this process, where the plugin runs. */
import { readdirSync } from 'node:fs'
import { setImmediate } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { type Check, expect, vacuous } from '../check.ts'
import type { CheckContext } from '../context.ts'
import type { Dataset } from '../dataset.ts'
import { readable, takenOf, type Way } from '../ways.ts'

const READS = { core: 120, full: 120, hard: 500 } as const
/** What is kept at each read shows in each of them; what is made once, or now and then, in one at most. */
const STRETCHES = 3
/** Far above what is left by chance, and far below a row, a plan or a statement that is kept at each read. */
const MOST_BYTES = 1024
/** One in so many reads. */
const HANDLES_PER = 50

export const growthChecks: readonly Check[] = [
  {
    id: 179,
    name: 'reads-keep-neither-memory-nor-handles',
    level: 'full',
    async run(context) {
      const { dataset, ways } = await readable(context, 40)
      const reads = READS[context.level]
      for (const way of ways) {
        const { bytes, handles } = await growthOf(context, (count) => readOften(context, dataset, way, count), reads)
        expect(bytes <= MOST_BYTES, () =>
          kept(way.name, `${Math.round(bytes)} bytes at each read`, `${MOST_BYTES} bytes`),
        )
        expect(handles <= reads / HANDLES_PER, () =>
          kept(way.name, `${handles} files, sockets or timers after ${reads} reads`, 'none that stays'),
        )
      }
    },
  },
  {
    id: 195,
    name: 'reads-left-in-their-middle-keep-nothing',
    level: 'full',
    async run(context) {
      const { dataset, ways } = await readable(context, Math.min(LEFT_ROWS, context.capabilities.limits.maxReadRows))
      for (const way of ways) {
        const left = (reads: number) => leaveOften(context, dataset, way, reads)
        const { bytes, handles } = await growthOf(context, left, LEFT_READS)
        expect(bytes <= LEFT_BYTES, () =>
          kept(
            `${way.name}, left after its first batch`,
            `${Math.round(bytes)} bytes at each read`,
            `${LEFT_BYTES} bytes`,
          ),
        )
        expect(handles <= 1, () =>
          kept(`${way.name}, left after its first batch`, `${handles} files, sockets or timers`, 'none that stays'),
        )
      }
    },
  },
]

/** Of an answer that a store may well give in several batches. */
const LEFT_ROWS = 800
const LEFT_READS = 24
/** Far below an answer of so many rows. */
const LEFT_BYTES = 16_384

interface Growth {
  readonly bytes: number
  readonly handles: number
}

/** The least of all stretches, the first of which only warms up. */
async function growthOf(context: CheckContext, read: (reads: number) => Promise<void>, reads: number): Promise<Growth> {
  await read(reads)
  let before = await heldBy(context)
  let [bytes, handles] = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY]
  for (let stretch = 0; stretch < STRETCHES; stretch += 1) {
    await read(reads)
    const after = await heldBy(context)
    bytes = Math.min(bytes, (after.bytes - before.bytes) / reads)
    handles = Math.min(handles, after.handles - before.handles)
    before = after
  }
  return { bytes, handles }
}

async function readOften({ store }: CheckContext, { target }: Dataset, way: Way, reads: number): Promise<void> {
  for (let read = 0; read < reads; read += 1) {
    const { rowCount } = await takenOf(
      way.read(store, target, { limit: way.isPaged ? 10 : 1, signal: new AbortController().signal }),
    )
    expect(rowCount > 0, () => vacuous(`${way.name} gives nothing`))
  }
}

/** Whoever has seen enough goes after the first batch. */
async function leaveOften({ store }: CheckContext, { target }: Dataset, way: Way, reads: number): Promise<void> {
  for (let read = 0; read < reads; read += 1) {
    const signal = new AbortController().signal
    const batches = way.read(store, target, { limit: way.isPaged ? LEFT_ROWS : 1, signal })[Symbol.asyncIterator]()
    const { done, value } = await batches.next()
    await batches.return?.()
    expect(done !== true && value.rowCount > 0, () => vacuous(`${way.name} gives nothing`))
  }
}

async function heldBy({ host, logger, clock }: CheckContext): Promise<Growth> {
  // What the suite itself keeps of the plugin's words is none of the plugin's memory.
  host.measured.length = 0
  logger.lines.length = 0
  for (let turn = 0; turn < 2; turn += 1) {
    await setImmediate()
    collectGarbage()
  }
  const { heapUsed, external } = process.memoryUsage()
  return {
    bytes: heapUsed + external,
    handles: openFiles() + process.getActiveResourcesInfo().length + clock.timerCount,
  }
}

function collectGarbage(): void {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void
  collect()
}

/** 0 where the system does not tell. */
function openFiles(): number {
  try {
    return readdirSync('/proc/self/fd').length
  } catch {
    // No such folder: what keeps the process alive is counted all the same.
    return 0
  }
}

function kept(way: string, came: string, expected: string) {
  return {
    what: `reads that have ended keep ${came}`,
    expected,
    came,
    where: `${way}, over many reads`,
    why: 'a runtime reads for months, and what is kept of each read ends it',
    remedy: 'Release what a read holds when its iteration ends, and bound what is remembered by a number.',
  }
}
