/**
 * The deployment under test. `SLUICE_ACCEPTANCE_URL` names a running one, with `SLUICE_ACCEPTANCE_ADMIN_TOKEN`,
 * `SLUICE_ACCEPTANCE_TOKENS` (a command that prints a token for a tenant, group and user) and
 * `SLUICE_ACCEPTANCE_SOURCE` (a PostgreSQL to make tables in). Without it, an embedded one is started on a folder of
 * its own. Everything after that goes over HTTP.
 */
import { execFile, spawn } from 'node:child_process'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type pg from 'pg'
import { startEmbeddedServer } from '../runtime/src/database/embedded-server.ts'

const run = promisify(execFile)
const launcher = join(import.meta.dirname, '../runtime/bin/sluice.js')

export interface Deployment {
  readonly url: string
  /** A superuser's login to the source, for making tables in it. */
  readonly source: pg.ClientConfig & { readonly host: string; readonly port: number }
  token(flags: readonly string[]): Promise<string>
  stop(): Promise<void>
}

export async function openDeployment(): Promise<Deployment> {
  const url = process.env['SLUICE_ACCEPTANCE_URL']
  return url === undefined ? startEmbedded() : namedDeployment(url)
}

function namedDeployment(url: string): Deployment {
  const source = new URL(process.env['SLUICE_ACCEPTANCE_SOURCE'] ?? 'postgresql://postgres@127.0.0.1:5432/postgres')
  const command = (process.env['SLUICE_ACCEPTANCE_TOKENS'] ?? '').split(' ')
  return {
    url,
    source: {
      host: source.hostname,
      port: Number(source.port || 5432),
      user: decodeURIComponent(source.username),
      password: decodeURIComponent(source.password),
      database: source.pathname.slice(1),
    },
    token: async (flags) => (await run(command[0] as string, [...command.slice(1), ...flags])).stdout.trim(),
    stop: async () => {},
  }
}

async function startEmbedded(): Promise<Deployment> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-acceptance-'))
  const data = join(folder, 'data')
  const server = await startEmbeddedServer({ dataFolder: join(folder, 'source'), durable: false })
  const child = spawn(process.execPath, [launcher, 'start', '--data-dir', data, '--port', '0'], {
    stdio: ['ignore', 'ignore', 'inherit'],
    env: {
      ...process.env,
      SLUICE_LOG__LEVEL: 'error',
      SLUICE_LIMITS__RATE__STANDARD: '5000',
      SLUICE_LIMITS__RATE__FREE: '5000',
    },
  })
  const { host, port, user, password } = server.tcpAddress
  return {
    url: await addressOf(data, () => child.exitCode),
    source: { host, port, user, password, database: 'postgres' },
    token: async (flags) =>
      (await run(process.execPath, [launcher, 'token', '--data-dir', data, ...flags])).stdout.trim(),
    async stop() {
      const ended = new Promise((resolve) => child.once('exit', resolve))
      if (child.exitCode === null) child.kill('SIGTERM')
      if (child.exitCode === null) await ended
      await server.stop()
      await rm(folder, { recursive: true, force: true })
    },
  }
}

async function addressOf(data: string, exitCode: () => number | null): Promise<string> {
  for (let attempt = 0; attempt < 1800; attempt += 1) {
    if (exitCode() !== null) throw new Error(`the server ended with ${exitCode()}`)
    const text = await readFile(join(data, 'runtime.json'), 'utf8').catch(() => null)
    if (text) return (JSON.parse(text) as { url: string }).url
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
  throw new Error('the server did not start within three minutes')
}
