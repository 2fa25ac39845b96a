/**
 * The machine's clock may be set at any moment. What lasts a while goes by `performance.now`, and leases by the database's
 * clock; where the time of day itself is meant, the file is named here with what happens when it jumps.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sourceFiles } from './sources.ts'

const TIME_OF_DAY: Readonly<Record<string, string>> = {
  'auth/application-keys.ts': 'a key ends at a time of day',
  'auth/embedded-issuer.ts': 'tokens begin and end at a time of day; its pause ends when the clock goes back',
  'auth/key-file.ts': 'a retired key is published until a time of day',
  'auth/remote-keys.ts': 'begins anew when the clock goes back',
  'auth/service-passwords.ts': 'a service password ends at a time of day',
  'auth/verifier.ts': 'tokens end at a time of day; what was verified is not believed when the clock goes back',
  'assembly/materialization.ts': 'the clock that checks are told',
  'container.ts': 'the clock of the sandbox: commits in the lake never go back',
  'database/postgres-cluster.ts': 'part of a name',
  'http/cursor.ts': 'a cursor ends at a time of day',
  'http/reply.ts': 'a stream ends with its token',
  'command/run-progress.ts': 'the rate that a person is shown',
  'events/notify.ts': 'signatures are of a time of day',
  'iceberg/src/lake.ts': 'commits never go back; what removes by age is told the time by its caller',
  'iceberg/src/store-catalog.ts': 'leases where there is no database: cleaning keeps what is young besides',
  'operations/catalog/statement-watch.ts': 'statements end with their token, and began at a time of day',
  'operations/queries/held-rights.ts': 'statements end with their token',
  'operations/served/freshness.ts': 'an age that a person is shown, never below nothing',
  'operations/tenants/application-keys.ts': 'a key ends at a time of day',
  'operations/tenants/service-passwords.ts': 'a service password ends at a time of day',
  'operations/webhooks/send.ts':
    'signatures are of a time of day, and a receiver may name one to be asked again at, within a day',
  'plugins/host.ts': 'what the contract gives to plugins',
  'plugins/proof-rules.ts': 'a certificate is of a day',
  'wire/listener.ts': 'a session ends with its token',
  'wire/session/authority.ts': 'a session ends with its token',
  'registry/application-keys.ts': 'the earlier of two times of day counts',
  'registry/clock.ts': 'the earliest of three clocks counts',
}

test('what lasts a while does not go by a clock that somebody may set', () => {
  const found = sourceFiles(['runtime/src/**/*.ts', 'iceberg/src/**/*.ts'])
    .filter(({ path }) => !/\.(test|fixture)\.ts$|\/(?:testing|test-server)\.ts$/.test(path))
    .filter(({ text }) => /\bDate\.now\b/.test(text))
    .map(({ path }) => path.replace(/^runtime\/src\//, ''))
  assert.deepEqual(found.sort(), Object.keys(TIME_OF_DAY).sort())
})
