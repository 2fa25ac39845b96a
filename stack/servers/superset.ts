/**
 * Superset, from wheels of PyPI in a virtual environment, with the configuration that is deployed and its metadata in
 * SQLite. Preparing the metadata takes two minutes, so it is kept, and every start has a copy.
 */
import { randomBytes } from 'node:crypto'
import { copyFile, mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { freePort } from '../../runtime/src/database/free-port.ts'
import { installed, runTool } from '../cache.ts'
import { type NativeProcess, startNative } from '../native-process.ts'

const VERSION = '6.1.0'
const READY_MS = 240_000
const CONFIG = join(import.meta.dirname, '../../deploy/superset/superset_config.py')
const REQUIREMENTS = join(import.meta.dirname, 'superset-requirements.txt')
const COMMAND = 'from superset.cli.main import superset; superset()'

/** Of the one administrator, on a server that lives for minutes and listens on this machine only. */
const ADMIN = { username: 'sluice', password: 'sluice-of-tests' } as const

export interface RunningSuperset extends NativeProcess {
  readonly url: string
  readonly username: string
  readonly password: string
}

/** Resolves when it answers. `folder` is empty, and the caller's to remove. */
export async function startSuperset(folder: string): Promise<RunningSuperset> {
  const [python, metadata] = [await pythonOf(), await preparedMetadata()]
  await mkdir(folder, { recursive: true })
  await copyFile(join(metadata, 'superset.db'), join(folder, 'superset.db'))
  const port = await freePort()
  const url = `http://127.0.0.1:${port}`
  // One process of several threads, as SQLite would have it.
  const serving = ['--workers', '1', '--threads', '8', '--worker-class', 'gthread', '--timeout', '120']
  const running = await startNative({
    name: `Superset ${VERSION}`,
    command: python,
    args: ['-m', 'gunicorn', '--bind', `127.0.0.1:${port}`, ...serving, 'superset.app:create_app()'],
    cwd: folder,
    env: environmentOf(folder),
    logFile: join(folder, 'server.log'),
    ready: async () => (await fetch(`${url}/health`, { signal: AbortSignal.timeout(5_000) })).ok,
    readyTimeoutMs: READY_MS,
  })
  return { ...running, url, ...ADMIN }
}

function environmentOf(folder: string): NodeJS.ProcessEnv {
  const { OIDC_ISSUER: _, ...environment } = process.env
  return {
    ...environment,
    SUPERSET_CONFIG_PATH: CONFIG,
    SUPERSET_HOME: folder,
    SUPERSET_SECRET_KEY: randomBytes(32).toString('hex'),
    SQLALCHEMY_DATABASE_URI: `sqlite:///${join(folder, 'superset.db')}?check_same_thread=false`,
    // The configuration lies in the checkout, where nothing may be left.
    PYTHONDONTWRITEBYTECODE: '1',
  }
}

async function pythonOf(): Promise<string> {
  const folder = await installed(`superset-${VERSION}`, async (target, signal) => {
    await runTool('python3', ['-m', 'venv', target])
    const pip = (...args: readonly string[]) =>
      runTool(join(target, 'bin/python'), ['-m', 'pip', 'install', ...args], { signal })
    // Some of its packages are built, by tools that newer releases of setuptools have no more.
    await pip('--quiet', 'setuptools==80.9.0', 'wheel==0.45.1')
    await pip('--quiet', '--no-deps', '--no-build-isolation', '--requirement', REQUIREMENTS)
  })
  return join(folder, 'bin/python')
}

/** With the program itself. */
export function preparedMetadata(): Promise<string> {
  return installed(`superset-${VERSION}-metadata`, async (folder, signal) => {
    const python = await pythonOf()
    const run = (...args: readonly string[]) =>
      runTool(python, ['-c', COMMAND, ...args], { cwd: folder, env: environmentOf(folder), signal })
    await run('db', 'upgrade')
    const { username, password } = ADMIN
    const person = ['--firstname', 'Sluice', '--lastname', 'Runtime', '--email', 'sluice@superset.test']
    await run('fab', 'create-admin', '--username', username, '--password', password, ...person)
    await run('init')
  })
}
