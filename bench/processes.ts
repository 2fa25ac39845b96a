/**
 * Reads by key from one runtime with one process that answers, and from one with several, in turns.
 * `node bench/processes.ts --processes 2 --rows 108000 --requests 20000 --rounds 5`.
 *
 * The load comes from this process, on the same machine: on two cores it takes up to one of them, and the database its part,
 * so that two processes cannot answer twice as many there. What counts is requests a second, at the median of rounds.
 */
import { LOOKUP, load, median, ours, type Round } from './reads.ts'
import { type Bench, connectSource, deploy, flag, register, startBench, startPeerRuntime, sync } from './setup.ts'

async function served(bench: Bench): Promise<Bench> {
  await connectSource(bench)
  await register(bench)
  await deploy(bench, '1.0.0', LOOKUP)
  await sync(bench)
  return bench
}

async function main(): Promise<void> {
  const processes = flag('processes') ?? '2'
  const rows = Number(flag('rows') ?? 108_000)
  const requests = Number(flag('requests') ?? 20_000)
  const rounds = Number(flag('rounds') ?? 5)
  const bench = await startBench(rows)
  let several: Bench | null = null
  try {
    several = await startPeerRuntime(bench, undefined, { SLUICE_HTTP__PROCESSES: processes })
    const sides = [await served(bench), await served(several)].map((one) => ours(one, 'measured/latest?filter=id:ID'))
    const of = new Map(sides.map((side) => [side, [] as Round[]]))
    // A round that does not count: what is measured is code that is warm.
    for (const side of sides) await load(side, rows, requests)
    for (let round = 0; round < rounds; round += 1) {
      for (const [side, measured] of of) measured.push(await load(side, rows, requests))
    }
    const [one = 0, more = 0] = [...of.values()].map(median)
    const told = `${Math.round(one)}/s by one process, ${Math.round(more)}/s by ${processes}`
    console.log(`${told}: ${(more / one).toFixed(2)}`)
  } finally {
    await several?.stop()
    await bench.stop()
  }
}

await main()
