/** How soon the embedded runtime is ready, and what it holds when nobody asks anything of it. */
import { spawnSync } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { treeProcesses } from '../bench/memory.ts'
import { RuntimeProcess } from '../test/crash/runtime-process.ts'

/** A figure that may be as large as its bound. */
export interface Measured {
  /** Read after the figure. */
  readonly what: string
  readonly figure: number
  readonly most: number
  /** What to do where it is larger. */
  readonly remedy: string
}

const STARTS = 3
const MOST_READY_MS = 4_000
const MOST_IDLE_MIB = 370
const IDLE_MS = 8_000
const READY_MS = 60_000

/** How long the reference machine takes to start Node on an empty program, the median of many. */
const REFERENCE_START_MS = 45
const YARDSTICK_STARTS = 10

function startNodeMs(): number {
  const startedMs = performance.now()
  const { status } = spawnSync(process.execPath, ['-e', '0'])
  if (status !== 0) throw new Error('node -e 0 does not run here, so there is nothing to measure by')
  return performance.now() - startedMs
}

function median(values: readonly number[]): number {
  const sorted = [...values].sort((left, right) => left - right)
  return sorted[Math.floor(sorted.length / 2)] ?? 0
}

/** How many times slower than the reference this machine is right now, with all that runs beside; 1 where it is not. */
function slowness(): number {
  return Math.max(1, median(Array.from({ length: YARDSTICK_STARTS }, startNodeMs)) / REFERENCE_START_MS)
}

async function ready(url: string): Promise<void> {
  const signal = AbortSignal.timeout(READY_MS)
  while (!(await fetch(`${url}/readyz`, { signal })).ok) await sleep(20, undefined, { signal })
}

/** From the start of the process until it says that every dependency works. */
async function startMs(dataFolder: string): Promise<readonly [RuntimeProcess, number]> {
  const startedMs = performance.now()
  const runtime = await RuntimeProcess.spawn(dataFolder, null)
  try {
    const url = await runtime.address()
    if (url === null) throw new Error(`the runtime ended before it was ready:\n${runtime.output}`)
    await ready(url)
    return [runtime, performance.now() - startedMs]
  } catch (error) {
    await runtime.stop()
    throw error
  }
}

interface Starts {
  readonly leastMs: number
  readonly idleMib: number
  /** The largest first, in words. */
  readonly holders: string
}

/** The first start makes the databases, which happens once in the life of a folder and is not counted. */
async function startRepeatedly(dataFolder: string): Promise<Starts> {
  const [first] = await startMs(dataFolder)
  await first.stop()
  let leastMs = Number.POSITIVE_INFINITY
  let idleMib = 0
  let holders = ''
  for (let count = 1; count <= STARTS; count++) {
    const [runtime, tookMs] = await startMs(dataFolder)
    try {
      leastMs = Math.min(leastMs, tookMs)
      if (count < STARTS) continue
      await sleep(IDLE_MS)
      const processes = await treeProcesses(runtime.pid)
      idleMib = processes.reduce((sum, { mb }) => sum + mb, 0)
      holders = processes
        .toSorted((left, right) => right.mb - left.mb)
        .map(({ mb, command }) => `${Math.round(mb)} ${command}`)
        .join(', ')
    } finally {
      await runtime.stop()
    }
  }
  return { leastMs, idleMib, holders }
}

export async function measureRunning(): Promise<readonly Measured[]> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-guards-'))
  try {
    const before = slowness()
    const { leastMs, idleMib, holders } = await startRepeatedly(join(folder, 'data'))
    const factor = (before + slowness()) / 2
    console.log(`guards: this machine takes ${factor.toFixed(2)} times as long as the reference right now`)
    return [
      {
        what: `ms until the runtime is ready, the least of ${STARTS} starts`,
        figure: Math.round(leastMs),
        most: Math.round(MOST_READY_MS * factor),
        remedy: 'node --cpu-prof tells what a start loads: import lazily what no first request needs',
      },
      {
        what: 'MiB held by an idle runtime with its database',
        figure: Math.round(idleMib),
        most: MOST_IDLE_MIB,
        remedy: `start later, or in a child that ends, what an idle runtime does not use. By process: ${holders}`,
      },
    ]
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}
