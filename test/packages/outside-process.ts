/** Commands and a runtime in a project outside of this repository, with nothing on the path that is not its own. */
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { delimiter, dirname, join } from 'node:path'
import { promisify } from 'node:util'

const START_MS = 120_000
const COMMAND_MS = 300_000
const MAX_OUTPUT_BYTES = 64 << 20

/** This Node first, then what the machine has; nothing of the repository's node_modules. */
function environment(): NodeJS.ProcessEnv {
  const rest = (process.env['PATH'] ?? '').split(delimiter).filter((entry) => !entry.includes('node_modules'))
  const kept = Object.entries(process.env).filter(([name]) => !/^(npm_|SLUICE_|NODE_)/.test(name))
  return { ...Object.fromEntries(kept), PATH: [dirname(process.execPath), ...rest].join(delimiter) }
}

/** What the command printed; throws with all of it where the command does not end with 0. */
export async function runOutside(cwd: string, command: string, args: readonly string[]): Promise<string> {
  const options = { cwd, env: environment(), timeout: COMMAND_MS, maxBuffer: MAX_OUTPUT_BYTES }
  try {
    return (await promisify(execFile)(command, [...args], options)).stdout
  } catch (error) {
    const { stdout, stderr } = error as { readonly stdout?: string; readonly stderr?: string }
    throw new Error(`${command} ${args.join(' ')} failed:\n${stdout}\n${stderr}`, { cause: error })
  }
}

export interface RuntimeOutside {
  get(path: string): Promise<unknown>
  post(path: string, body: unknown): Promise<unknown>
  /** What it has printed so far. */
  printed(): string
  stop(): Promise<void>
}

/** `sluice start` of the package that is installed in the project, in its folder or in another one; ready to be asked. */
export async function startOutside(project: string, cwd = project): Promise<RuntimeOutside> {
  const data = join(cwd, '.sluice')
  const launcher = join(project, 'node_modules/.bin/sluice')
  const child = spawn(launcher, ['start', '--port', '0'], { cwd, env: environment() })
  let printed = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (printed += chunk))
  const stop = async () => {
    if (child.exitCode !== null) return
    const ended = once(child, 'exit')
    child.kill('SIGTERM')
    await ended
  }
  try {
    const url = await addressOf(data, () => child.exitCode !== null)
    const token = (await runOutside(cwd, launcher, ['token', '--role', 'admin'])).trim()
    const request = (method: string) => (path: string, body?: unknown) => ask(method, `${url}${path}`, token, body)
    return { get: request('GET'), post: request('POST'), printed: () => printed, stop }
  } catch (error) {
    await stop()
    throw new Error(`the runtime did not start:\n${printed}`, { cause: error })
  }
}

async function addressOf(data: string, hasEnded: () => boolean): Promise<string> {
  const deadline = Date.now() + START_MS
  while (Date.now() < deadline && !hasEnded()) {
    const text = await readFile(join(data, 'runtime.json'), 'utf8').catch(() => '')
    if (text !== '') return (JSON.parse(text) as { url: string }).url
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
  throw new Error('it has no address')
}

async function ask(method: string, url: string, token: string, body: unknown): Promise<unknown> {
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }
  const response = await fetch(url, { method, headers, ...(body === undefined ? {} : { body: JSON.stringify(body) }) })
  const text = await response.text()
  if (!response.ok) throw new Error(`${method} ${url} answered ${response.status}: ${text}`)
  return JSON.parse(text)
}
