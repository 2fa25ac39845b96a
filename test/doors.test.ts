/**
 * What can be read besides the operations of the interface, whose table is in `acceptance/readers.stack.test.ts`: by ports that are
 * listened on, by logins, and by servers that are given rows. A new one has to say which test shows that it keeps to the policy.
 */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { it } from 'node:test'
import { SERVICE_KINDS } from '../sdk/service.ts'

const ROOT = join(import.meta.dirname, '..')

interface Shown {
  readonly file: string
  /** What its test says of masks, of other tenants, and of what is on record where the door itself reads. */
  readonly says: readonly RegExp[]
}

const READERS: Shown = { file: 'acceptance/readers.stack.test.ts', says: [/is read on record/, /foreigner/, /masked/] }

/** By the name of their port in the configuration. */
const PORTS: Readonly<Record<string, readonly Shown[]>> = {
  port: [READERS, { file: 'acceptance/rules.int.test.ts', says: [/foreigner/] }],
  'wire.port': [READERS, { file: 'stack/wire/wire.stack.test.ts', says: [/overWire|who may read/, /other/] }],
  'trino.policy_port': [{ file: 'stack/trino/policy.stack.test.ts', says: [/mask/i, /tenant/] }],
  'dashboards.database_port': [{ file: 'stack/dashboards/dashboards.stack.test.ts', says: [/mask/i, /tenant/] }],
}

/** By their kind. */
const SERVERS: Readonly<Record<(typeof SERVICE_KINDS)[number], readonly Shown[]>> = {
  compute: [{ file: 'stack/trino/policy.stack.test.ts', says: [/mask/i, /tenant/] }],
  dashboard: [{ file: 'stack/dashboards/dashboards.stack.test.ts', says: [/mask/i, /tenant/] }],
  'event-bus': [{ file: 'stack/changes/changes.stack.test.ts', says: [/mask/i, /tenant/] }],
  'object-store': [READERS],
}

const portsIn = (page: string): readonly string[] =>
  [...page.matchAll(/^\| `([\w.]*port)` \|/gm)].map(([, name = '']) => name)

it('every port and every server beside the runtime has a test of who is shown what by it', () => {
  const page = readFileSync(join(ROOT, 'docs/generated/configuration.md'), 'utf8')
  assert.deepEqual(portsIn(page).toSorted(), Object.keys(PORTS).toSorted())
  assert.deepEqual(Object.keys(SERVERS).toSorted(), [...SERVICE_KINDS].toSorted())
  for (const [door, shown] of Object.entries({ ...PORTS, ...SERVERS })) {
    assert.ok(shown.length > 0, door)
    for (const { file, says } of shown) {
      const text = readFileSync(join(ROOT, file), 'utf8')
      for (const pattern of says) assert.match(text, pattern, `${door}: ${file}`)
    }
  }
})
