/**
 * Measures ingestion against another checkout of Sluice, side by side and in turns, from one source:
 * `node bench/ingest.ts --peer FOLDER --rows 1000000 --rounds 5`. Beside the time of the clock it tells the processor time
 * of all of a runtime's processes, which others on the machine take nothing from.
 */
import { resolve } from 'node:path'
import {
  type Bench,
  connectSource,
  deploy,
  flag,
  processorS,
  register,
  startBench,
  startPeerRuntime,
  sync,
} from './setup.ts'

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
  for (const bench of [ours, theirs]) {
    await connectSource(bench)
    await register(bench)
    await deploy(bench, '1.0.0', '  - type: analytics\n')
    // A round that does not count.
    await spentBy(bench)
  }
  const spent: [Spent, Spent][] = []
  for (let round = 0; round < rounds; round += 1) {
    // Neither always comes first.
    const first = round % 2 === 0 ? [ours, theirs] : [theirs, ours]
    const both = new Map<Bench, Spent>()
    for (const bench of first) both.set(bench, await spentBy(bench))
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

async function spentBy(bench: Bench): Promise<Spent> {
  const before = await processorS(bench)
  const done = await sync(bench)
  const wallS = (Date.parse(done.finished_at) - Date.parse(done.started_at)) / 1000
  // Processes that have done their work end a moment later.
  await new Promise((resolve) => setTimeout(resolve, 1000))
  return { wallS, processorS: (await processorS(bench)) - before }
}
