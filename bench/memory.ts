/** What a process and everything below it takes. */
import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { promisify } from 'node:util'

const run = promisify(execFile)

/** Proportional set size of a process and all below it: shared memory counts once. */
export async function treeMb(pid: number): Promise<number> {
  const { stdout } = await run('ps', ['-eo', 'pid=,ppid='])
  const pairs = stdout
    .trim()
    .split('\n')
    .map((line) => line.trim().split(/\s+/).map(Number) as [number, number])
  const below = (parent: number): number[] =>
    pairs.filter(([, ppid]) => ppid === parent).flatMap(([own]) => [own, ...below(own)])
  let kb = 0
  for (const one of [pid, ...below(pid)]) {
    const text = await readFile(`/proc/${one}/smaps_rollup`, 'utf8').catch(() => '')
    kb += Number(/^Pss:\s+(\d+)/m.exec(text)?.[1] ?? 0)
  }
  return kb / 1024
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
