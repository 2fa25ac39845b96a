/**
 * MinIO, and its client for what is deployed beside it: both built from their sources by Go. The logins that tests
 * are given are made by the script of `docker-compose.yml`, with the policies that are deployed.
 */
import { randomBytes } from 'node:crypto'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { freePort } from '../../runtime/src/free-port.ts'
import { installed, runTool } from '../cache.ts'
import { composeService } from '../compose.ts'
import { type NativeProcess, startNative } from '../native-process.ts'
import type { ServerKind } from '../server.ts'

const SERVER = 'v0.0.0-20260212201848-7aac2a2c5b7c'
const CLIENT = 'v0.0.0-20250313080218-cf909e1063a9'
const READY_MS = 60_000
const root = join(import.meta.dirname, '../..')
const secret = (): string => randomBytes(18).toString('base64url')

interface Logins {
  readonly rootKey: string
  readonly rootSecret: string
  readonly key: string
  readonly secret: string
  readonly readKey: string
  readonly readSecret: string
}

export const minio: ServerKind = {
  name: 'MinIO',
  variable: 'SLUICE_TEST_S3_URL',
  prepare: binaries,
  async start(folder) {
    const installation = await binaries()
    const logins = {
      ...{ rootKey: 'administrator', rootSecret: secret() },
      ...{ key: 'sluice', secret: secret() },
      ...{ readKey: 'sluice-engine', readSecret: secret() },
    }
    const port = await freePort()
    const running = await startMinio(installation, folder, port, logins)
    const url = `http://127.0.0.1:${port}`
    try {
      await setUp(installation, folder, url, logins)
    } catch (error) {
      await running.stop()
      throw error
    }
    const env = {
      SLUICE_TEST_S3_URL: url,
      SLUICE_TEST_S3_KEY: logins.key,
      SLUICE_TEST_S3_SECRET: logins.secret,
      SLUICE_TEST_S3_ROOT_KEY: logins.rootKey,
      SLUICE_TEST_S3_ROOT_SECRET: logins.rootSecret,
      SLUICE_TEST_S3_READ_KEY: logins.readKey,
      SLUICE_TEST_S3_READ_SECRET: logins.readSecret,
    }
    return { env, stop: () => running.stop() }
  },
}

async function startMinio(installation: string, folder: string, port: number, logins: Logins): Promise<NativeProcess> {
  const objects = join(folder, 'objects')
  await mkdir(objects, { recursive: true })
  return startNative({
    name: 'minio',
    command: join(installation, 'minio'),
    args: ['server', objects, '--address', `127.0.0.1:${port}`, '--console-address', `127.0.0.1:${await freePort()}`],
    env: {
      PATH: process.env['PATH'],
      HOME: folder,
      MINIO_ROOT_USER: logins.rootKey,
      MINIO_ROOT_PASSWORD: logins.rootSecret,
    },
    logFile: join(folder, 'log'),
    ready: async () => (await fetch(`http://127.0.0.1:${port}/minio/health/ready`)).ok,
    readyTimeoutMs: READY_MS,
  })
}

/** Twice, as it is run again at every start of the deployment. */
async function setUp(installation: string, folder: string, url: string, logins: Logins): Promise<void> {
  const { command } = await composeService('minio-setup')
  const script = (command[0] as string)
    .replaceAll('$$', '$')
    .replaceAll('http://minio:9000', url)
    .replaceAll(/ \/(policy\S*\.json)/g, ` ${join(root, 'deploy/minio')}/$1`)
  const env = {
    PATH: `${installation}:${process.env['PATH']}`,
    HOME: folder,
    MC_CONFIG_DIR: join(folder, 'mc'),
    MINIO_ROOT_USER: logins.rootKey,
    MINIO_ROOT_PASSWORD: logins.rootSecret,
    S3_ACCESS_KEY: logins.key,
    S3_SECRET_KEY: logins.secret,
    LAKE_S3_ACCESS_KEY: logins.readKey,
    LAKE_S3_SECRET_KEY: logins.readSecret,
  }
  for (const _ of ['first', 'again']) await runTool('sh', ['-euc', script], { env })
}

let building: Promise<string> | null = null

function binaries(signal?: AbortSignal): Promise<string> {
  const name = `minio-${SERVER.slice(-12)}-mc-${CLIENT.slice(-12)}`
  building ??= installed(name, (folder) => build(folder, signal))
  return building
}

async function build(folder: string, signal: AbortSignal | undefined): Promise<void> {
  const env = { ...process.env, GOBIN: folder, GOFLAGS: '-mod=mod' }
  for (const module of [`github.com/minio/minio@${SERVER}`, `github.com/minio/mc@${CLIENT}`]) {
    await runTool('nice', ['-n', '19', 'go', 'install', module], { env, ...(signal ? { signal } : {}) })
  }
}
