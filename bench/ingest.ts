/**
 * Measures ingestion against another checkout of Sluice, side by side and in turns, from one source:
 * `node bench/ingest.ts --peer FOLDER --rows 1000000 --rounds 5`. Beside the time of the clock it tells the processor time
 * of all of a runtime's processes, which others on the machine take nothing from.
 */
import { execFile } from 'node:child_process'
import { readdir, readFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { promisify } from 'node:util'
import { type Bench, connectSource, deploy, flag, register, startBench, startPeerRuntime, sync } from './setup.ts'

const run = promisify(execFile)
const rows = Number(flag('rows') ?? 1_000_000)
const rounds = Number(flag('rounds') ?? 5)
const peer = flag('peer')
if (peer === undefined) throw new Error('--peer names the folder of the other checkout')

interface Spent {
  readonly wallS: number
  readonly processorS: number
}

const ours = await startBench(rows)
const theirs = await startPeerRuntime(ours, resolve(peer))
try {
  const ticks = Number((await run('getconf', ['CLK_TCK'])).stdout)
  for (const bench of [ours, theirs]) {
    await connectSource(bench)
    await register(bench)
    await deploy(bench, '1.0.0', '  - type: analytics\n')
    // A round that does not count.
    await spentBy(bench, ticks)
  }
  const spent: [Spent, Spent][] = []
  for (let round = 0; round < rounds; round += 1) {
    // Neither always comes first.
    const first = round % 2 === 0 ? [ours, theirs] : [theirs, ours]
    const both = new Map<Bench, Spent>()
    for (const bench of first) both.set(bench, await spentBy(bench, ticks))
    spent.push([both.get(ours) as Spent, both.get(theirs) as Spent])
  }
  tell('time of the clock', spent, ({ wallS }) => wallS)
  tell('processor time', spent, ({ processorS }) => processorS)
} finally {
  await theirs.stop()
  await ours.stop()
}

function tell(what: string, spent: readonly (readonly [Spent, Spent])[], of: (one: Spent) => number): void {
  const median = (values: readonly number[]) => [...values].sort((a, b) => a - b)[values.length >> 1] as number
  const [own, other] = [median(spent.map(([one]) => of(one))), median(spent.map(([, one]) => of(one)))]
  const each = spent.map(([one, two]) => `${of(one).toFixed(2)}/${of(two).toFixed(2)}`).join(' ')
  console.log(
    `${what}: ${own.toFixed(2)} s, the other ${other.toFixed(2)} s, its speed × ${(other / own).toFixed(2)} (${each})`,
  )
}

async function spentBy(bench: Bench, ticks: number): Promise<Spent> {
  const before = await ticksOf(bench.server.pid as number)
  const done = await sync(bench)
  const wallS = (Date.parse(done.finished_at) - Date.parse(done.started_at)) / 1000
  // Processes that have done their work end a moment later.
  await new Promise((resolve) => setTimeout(resolve, 1000))
  return { wallS, processorS: ((await ticksOf(bench.server.pid as number)) - before) / ticks }
}

/** Of the process, of those that it has started, and of those of them that have ended. */
async function ticksOf(root: number): Promise<number> {
  const stats = new Map<number, { readonly parent: number; readonly ticks: number }>()
  for (const name of await readdir('/proc')) {
    if (!/^\d+$/.test(name)) continue
    const text = await readFile(`/proc/${name}/stat`, 'latin1').catch(() => '')
    const fields = text
      .slice(text.lastIndexOf(')') + 2)
      .split(' ')
      .map(Number)
    const [user = 0, system = 0, endedUser = 0, endedSystem = 0] = fields.slice(11, 15)
    if (text !== '') stats.set(Number(name), { parent: fields[1] ?? 0, ticks: user + system + endedUser + endedSystem })
  }
  const of = (pid: number): number => {
    let sum = stats.get(pid)?.ticks ?? 0
    for (const [child, { parent }] of stats) if (parent === pid) sum += of(child)
    return sum
  }
  return of(root)
}
