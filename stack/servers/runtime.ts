/**
 * A runtime whose databases are a PostgreSQL server of its own, reached over TCP with its several logins, and a source
 * database; what the acceptance tests run against.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type DatabaseAddress, formatAddress } from '../../runtime/src/database/address.ts'
import { type EmbeddedServer, startEmbeddedServer } from '../../runtime/src/database/embedded-server.ts'
import { preparePlatformDatabases } from '../../runtime/src/database/roles.ts'
import { testCluster } from '../../runtime/src/database/testing.ts'
import type { ServerKind, StackServer } from '../server.ts'

const launcher = join(import.meta.dirname, '../../runtime/bin/sluice.js')
const END_WITH_TEST = join(import.meta.dirname, '../../test/crash/end-with-test.js')
const START_MS = 180_000

export const runtimeOnPostgres: ServerKind = {
  name: 'a runtime on an outside PostgreSQL',
  variable: 'SLUICE_ACCEPTANCE_URL',
  start: (folder) => startRuntimeOnPostgres(folder),
}

export interface RunningRuntime extends StackServer {
  readonly url: string
  /** Of the registry's database, over TCP. */
  readonly registry: DatabaseAddress
}

/** Neither a machine that fails, nor somebody who tries passwords, is among what these tests are about. */
const QUICK = { durable: false, settings: { scram_iterations: '1' } } as const

type Variables = Readonly<Record<string, string>>

/** @param settings more `SLUICE_…` variables for the runtime; they may need to know its PostgreSQL */
export async function startRuntimeOnPostgres(
  folder: string,
  settings: Variables | ((platform: EmbeddedServer) => Promise<Variables>) = {},
): Promise<RunningRuntime> {
  const data = join(folder, 'data')
  const template = await testCluster()
  const platform = await startEmbeddedServer({ dataFolder: join(folder, 'platform'), template, ...QUICK })
  const source = await startEmbeddedServer({ dataFolder: join(folder, 'source'), template, ...QUICK })
  const logins = await preparePlatformDatabases(platform.address)
  const more = typeof settings === 'function' ? await settings(platform) : settings
  const program = ['--import', END_WITH_TEST, launcher, 'start', '--data-dir', data, '--port', '0']
  const runtime = spawn(process.execPath, program, {
    stdio: ['ignore', 'ignore', 'inherit'],
    detached: true,
    env: { ...process.env, TEST_PROCESS_ID: String(process.pid), ...databaseSettings(platform, logins), ...more },
  })
  const stop = async () => {
    await stopRuntime(runtime)
    await source.destroy()
    await platform.destroy()
  }
  try {
    const url = await addressOf(data, runtime)
    const { host, port } = platform.tcpAddress
    return {
      url,
      registry: { ...logins.registry, host, port },
      env: {
        SLUICE_ACCEPTANCE_URL: url,
        SLUICE_ACCEPTANCE_SOURCE: formatAddress(source.tcpAddress),
        SLUICE_ACCEPTANCE_TOKENS: `${process.execPath} ${launcher} token --data-dir ${data}`,
        SLUICE_ACCEPTANCE_KEYS: data,
      },
      stop,
    }
  } catch (error) {
    await stop()
    throw error
  }
}

type Logins = Awaited<ReturnType<typeof preparePlatformDatabases>>

function databaseSettings(server: EmbeddedServer, { registry, serving }: Logins): Readonly<Record<string, string>> {
  const { host, port } = server.tcpAddress
  const overTcp = (login: DatabaseAddress) => formatAddress({ ...login, host, port })
  return {
    SLUICE_DATABASE__REGISTRY_URL: overTcp(registry),
    SLUICE_DATABASE__SERVING_OWNER_URL: overTcp(serving.owner),
    SLUICE_DATABASE__SERVING_WRITER_URL: overTcp(serving.writer),
    SLUICE_DATABASE__SERVING_READER_URL: overTcp(serving.reader),
    SLUICE_NETWORK__ALLOW_LOOPBACK: 'true',
    SLUICE_LIMITS__RATE__STANDARD: '5000',
    SLUICE_LIMITS__RATE__ENTERPRISE: '5000',
    SLUICE_LIMITS__RATE__ADDRESS: '5000',
    SLUICE_LIMITS__SCHEDULE_INTERVAL_MS: '1000',
    SLUICE_LOG__LEVEL: 'error',
  }
}

async function addressOf(data: string, runtime: ChildProcess): Promise<string> {
  const deadline = Date.now() + START_MS
  while (Date.now() < deadline && runtime.exitCode === null) {
    const text = await readFile(join(data, 'runtime.json'), 'utf8').catch(() => null)
    if (text) return (JSON.parse(text) as { url: string }).url
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
  throw new Error('the runtime did not start')
}

async function stopRuntime(runtime: ChildProcess): Promise<void> {
  if (runtime.exitCode !== null) return
  const ended = once(runtime, 'exit')
  runtime.kill('SIGTERM')
  await ended
}

export default runtimeOnPostgres
