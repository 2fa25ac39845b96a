/**
 * A process of its own that may write only small files: a store is filled until there is no place left, then asked for
 * what it had, then closed. Says what came of it on one line.
 */
import { RecordingLogger, TestHost, VirtualClock } from '@sluice/conformance'
import { isSluiceError } from '@sluice/sdk'
import plugin from './index.ts'
import { commitOf, full, nameOf, target } from './orders.test-data.ts'

const clock = new VirtualClock()
const host = new TestHost({ clock, logger: new RecordingLogger(), stateDirectory: process.argv[2] as string, seed: 1 })
const store = await plugin.open({}, host)
await store.provision(target, 'apply')
await store.rls.install(target, { version: '1', tenantIsolation: 'forced' })
await store.write(target, full(10), commitOf(1, clock.nowText()))
const told: unknown[] = []
for (const epoch of [2, 3]) {
  try {
    await store.write(target, full(60_000), commitOf(epoch, clock.nowText()))
    told.push('written')
  } catch (error) {
    told.push(isSluiceError(error) ? [error.kind, error.code] : String(error))
  }
}
console.log(JSON.stringify({ told, served: await nameOf(store, '7'), applied: (await store.recover?.(target))?.epoch }))
await store.close()
