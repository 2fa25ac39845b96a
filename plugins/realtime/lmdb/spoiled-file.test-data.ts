/**
 * A process of its own, whose store’s file is spoiled while it is open. Says on one line what came of what was in hand, of
 * reads and of a write behind that, and ends as any process does.
 */
import { rmSync, statSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { RecordingLogger, TestHost, VirtualClock } from '@sluice/conformance'
import { isSluiceError } from '@sluice/sdk'
import plugin from './index.ts'
import { commitOf, full, nameOf, target } from './orders.test-data.ts'

const [stateDirectory = '', how = '', when = ''] = process.argv.slice(2)
const folder = join(stateDirectory, 'lmdb/data')
const file = join(folder, 'data.mdb')
const SPOILED: Readonly<Record<string, () => void>> = {
  emptied: () => truncateSync(file, 0),
  'cut in half': () => truncateSync(file, statSync(file).size / 2),
  overwritten: () => writeFileSync(file, Buffer.alloc(statSync(file).size, 7), { flag: 'r+' }),
  'without its locks': () => truncateSync(join(folder, 'lock.mdb'), 0),
  removed: () => rmSync(folder, { recursive: true }),
}

const clock = new VirtualClock()
const host = new TestHost({ clock, logger: new RecordingLogger(), stateDirectory, seed: 1 })
const store = await plugin.open({}, host)

async function provisioned(): Promise<void> {
  await store.provision(target, 'apply')
  await store.rls.install(target, { version: '1', tenantIsolation: 'forced' })
}

const outcome = (work: Promise<unknown>): Promise<unknown> =>
  work.then(
    (value) => value,
    (error: unknown) => (isSluiceError(error) ? [error.kind, error.code] : String(error)),
  )

await provisioned()
await store.write(target, full(2_000), commitOf(1, clock.nowText()))
const before = await nameOf(store, '7')
let inHand: unknown = null
if (when === 'writing') {
  host.faultPoint = async (name: string) => {
    if (name === 'realtime.before-commit') SPOILED[how]?.()
    // Until it was looked at by itself.
    if (name === 'realtime.before-commit') await sleep(1_000)
  }
  inHand = await outcome(store.write(target, full(3_000), commitOf(2, clock.nowText())))
  host.faultPoint = async () => {}
} else {
  // Reads use the locks, and LMDB is to be done with that before.
  if (how === 'without its locks') await sleep(2_000)
  SPOILED[how]?.()
  await sleep(5)
}
const after = await outcome(nameOf(store, '7'))
for (let turn = 0; turn < 1_000 && store.health().status !== 'ok'; turn += 1) await sleep(20)
const renewed = [await outcome(nameOf(store, '7')), await store.recover?.(target)]
await provisioned()
await store.write(target, full(10), { ...commitOf(3, clock.nowText()), previousEpoch: null })
const again = await nameOf(store, '7')
await store.close()
console.log(JSON.stringify({ before, inHand, after, renewed, again }))
