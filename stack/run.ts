/**
 * `npm run test:stack`: the acceptance tests against a runtime whose databases are a PostgreSQL server of its own,
 * reached over TCP with three logins, instead of the embedded one. Starts what it needs and ends it.
 */
import { spawn } from 'node:child_process'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type DatabaseAddress, formatAddress } from '../runtime/src/database/address.ts'
import { type EmbeddedServer, startEmbeddedServer } from '../runtime/src/database/embedded-server.ts'
import { preparePlatformDatabases } from '../runtime/src/database/roles.ts'

const root = join(import.meta.dirname, '..')
const launcher = join(root, 'runtime/bin/sluice.js')
const START_MS = 180_000

async function databaseSettings(server: EmbeddedServer): Promise<Readonly<Record<string, string>>> {
  const { registry, serving } = await preparePlatformDatabases(server.address)
  const { host, port } = server.tcpAddress
  const overTcp = (login: DatabaseAddress) => formatAddress({ ...login, host, port })
  return {
    SLUICE_DATABASE__REGISTRY_URL: overTcp(registry),
    SLUICE_DATABASE__SERVING_OWNER_URL: overTcp(serving.owner),
    SLUICE_DATABASE__SERVING_WRITER_URL: overTcp(serving.writer),
    SLUICE_DATABASE__SERVING_READER_URL: overTcp(serving.reader),
    SLUICE_NETWORK__ALLOW_LOOPBACK: 'true',
    SLUICE_LIMITS__RATE__STANDARD: '5000',
    SLUICE_LOG__LEVEL: 'error',
  }
}

async function addressOf(data: string): Promise<string> {
  const deadline = Date.now() + START_MS
  while (Date.now() < deadline) {
    const text = await readFile(join(data, 'runtime.json'), 'utf8').catch(() => null)
    if (text) return (JSON.parse(text) as { url: string }).url
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
  throw new Error('the runtime did not start')
}

function exitOf(child: ReturnType<typeof spawn>): Promise<number> {
  return new Promise((resolve) => child.once('exit', (code) => resolve(code ?? 1)))
}

async function main(): Promise<number> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-stack-'))
  const data = join(folder, 'data')
  const platform = await startEmbeddedServer({ dataFolder: join(folder, 'platform') })
  const source = await startEmbeddedServer({ dataFolder: join(folder, 'source'), durable: false })
  const env = { ...process.env, ...(await databaseSettings(platform)) }
  const runtime = spawn(process.execPath, [launcher, 'start', '--data-dir', data, '--port', '0'], {
    stdio: ['ignore', 'ignore', 'inherit'],
    env,
  })
  const ended = exitOf(runtime)
  try {
    const url = await addressOf(data)
    const tests = spawn(process.execPath, ['--test', '--test-reporter=spec', 'acceptance/contract.int.test.ts'], {
      cwd: root,
      stdio: ['ignore', 'inherit', 'inherit'],
      env: {
        ...process.env,
        SLUICE_ACCEPTANCE_URL: url,
        SLUICE_ACCEPTANCE_SOURCE: formatAddress(source.tcpAddress),
        SLUICE_ACCEPTANCE_TOKENS: `${process.execPath} ${launcher} token --data-dir ${data}`,
      },
    })
    return await exitOf(tests)
  } finally {
    runtime.kill('SIGTERM')
    await ended
    await source.destroy()
    await platform.destroy()
    await rm(folder, { recursive: true, force: true })
  }
}

process.exitCode = await main()
