import assert from 'node:assert/strict'
import { it } from 'node:test'
import { ChildPool } from '@sluice/engine/child-pool'
import { Registry } from 'prom-client'
import { cpuMetrics, slotMetrics } from './engine.ts'

function startChild() {
  const { promise: ended, resolve: kill } = Promise.withResolvers<void>()
  return { ready: Promise.resolve(), ended, kill }
}

it('say how many places there are, how many are taken, and who waits, from the start', async () => {
  const pools = { engine: 2, source: 4 } as const
  const limits = { warmChildren: 0, maxQueued: 10 }
  const engine = new ChildPool(startChild, { ...limits, maxChildren: pools.engine })
  const source = new ChildPool(startChild, { ...limits, maxChildren: pools.source })
  const registry = new Registry()
  const used = cpuMetrics(registry)
  slotMetrics(registry, { engine: () => engine.load, source: () => source.load })
  const shown = async () =>
    Object.fromEntries(
      [...(await registry.metrics()).matchAll(/^sluice_(\w+)\{process="(\w+)"\} (\S+)$/gm)].map(
        ([, name, process, value]) => [`${process} ${name}`, Number(value)],
      ),
    )
  const ofPools = Object.entries(pools).flatMap(([process, slots]) => [
    [`${process} slots`, slots],
    [`${process} slots_busy`, 0],
    [`${process} slots_waiting`, 0],
    [`${process} cpu_seconds_total`, 0],
  ])
  const idle = [...ofPools, ['trino cpu_seconds_total', 0]]
  assert.deepEqual(await shown(), Object.fromEntries(idle))
  const never = new AbortController().signal
  const first = await engine.take('acme', never, never)
  const second = engine.take('acme', never, never)
  used('source', 1.5)
  used('source', 1)
  const busy = { 'engine slots_busy': 1, 'engine slots_waiting': 1, 'source cpu_seconds_total': 2.5 }
  assert.deepEqual(await shown(), { ...Object.fromEntries(idle), ...busy })
  first.child.kill()
  ;(await second).child.kill()
  await (await second).child.ended
  await new Promise(setImmediate)
  assert.deepEqual(await shown(), { ...Object.fromEntries(idle), 'source cpu_seconds_total': 2.5 })
})
