/** What a process and everything below it takes. */
import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { promisify } from 'node:util'

const run = promisify(execFile)

/** A process, and its proportional set size: shared memory counts once. */
export interface HeldMemory {
  readonly mb: number
  /** The beginning of how it calls itself. */
  readonly command: string
}

/** A process and all below it. */
export async function treeProcesses(pid: number): Promise<readonly HeldMemory[]> {
  const { stdout } = await run('ps', ['-eo', 'pid=,ppid='])
  const pairs = stdout
    .trim()
    .split('\n')
    .map((line) => line.trim().split(/\s+/).map(Number) as [number, number])
  const below = (parent: number): number[] =>
    pairs.filter(([, ppid]) => ppid === parent).flatMap(([own]) => [own, ...below(own)])
  return Promise.all([pid, ...below(pid)].map(heldBy))
}

/** Nothing, where it has ended meanwhile. */
async function heldBy(pid: number): Promise<HeldMemory> {
  const read = (name: string) => readFile(`/proc/${pid}/${name}`, 'utf8').catch(() => '')
  const [rollup, words] = await Promise.all([read('smaps_rollup'), read('cmdline')])
  const command = words.replaceAll('\0', ' ').replaceAll(/\S*\//g, '').replaceAll(/\s+/g, ' ')
  return { mb: Number(/^Pss:\s+(\d+)/m.exec(rollup)?.[1] ?? 0) / 1024, command: command.trim().slice(0, 60) }
}

/** Of all of these together. */
export async function treeMb(pid: number): Promise<number> {
  return (await treeProcesses(pid)).reduce((sum, { mb }) => sum + mb, 0)
}

/** Runs `work` and gives the highest figure that was seen meanwhile, beside its result. */
export async function withPeak<Result>(pid: number, work: () => Promise<Result>): Promise<readonly [Result, number]> {
  let peakMb = await treeMb(pid)
  const look = () => void treeMb(pid).then((now) => (peakMb = Math.max(peakMb, now)))
  const watch = setInterval(look, 250)
  try {
    return [await work(), peakMb]
  } finally {
    clearInterval(watch)
  }
}
