/** The runtime as users run it, in a process of its own that may be killed at any moment. */
import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

const LAUNCHER = join(import.meta.dirname, '../../runtime/bin/sluice.js')
const END_WITH_TEST = join(import.meta.dirname, 'end-with-test.js')
const START_TIMEOUT_MS = 300_000
const END_TIMEOUT_MS = 120_000

export interface Ended {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
}

export class RuntimeProcess {
  readonly #child: ChildProcess
  readonly #dataFolder: string
  readonly ended: Promise<Ended>
  #isEnded = false
  #output = ''

  private constructor(child: ChildProcess, dataFolder: string) {
    this.#child = child
    this.#dataFolder = dataFolder
    const keep = (chunk: Buffer) => {
      this.#output = (this.#output + chunk.toString()).slice(-20_000)
    }
    child.stdout?.on('data', keep)
    child.stderr?.on('data', keep)
    this.ended = new Promise((resolve) => {
      child.once('exit', (code, signal) => {
        this.#isEnded = true
        resolve({ code, signal })
      })
    })
  }

  /**
   * `fault` as in SLUICE_FAULT; null: none. Port 0 is a free one. `configFile` as in `--config`. `preload` is a module that is
   * loaded first.
   */
  static async spawn(
    dataFolder: string,
    fault: string | null,
    port = 0,
    configFile?: string,
    preload?: string,
    env: Readonly<Record<string, string>> = {},
  ): Promise<RuntimeProcess> {
    const foreign = Object.entries(process.env).filter(([name]) => !name.startsWith('SLUICE_'))
    const flags = configFile === undefined ? [] : ['--config', configFile]
    const first = preload === undefined ? [] : ['--import', preload]
    const args = [
      '--import',
      END_WITH_TEST,
      ...first,
      LAUNCHER,
      'start',
      '--data-dir',
      dataFolder,
      '--port',
      String(port),
      ...flags,
    ]
    const child = spawn(process.execPath, args, {
      stdio: ['ignore', 'pipe', 'pipe'],
      // A session of its own, by which its children are found when it is gone. It ends with this process all the same.
      detached: true,
      env: {
        ...Object.fromEntries(foreign),
        TEST_PROCESS_ID: String(process.pid),
        SLUICE_LOG__LEVEL: 'warn',
        SLUICE_LIMITS__RATE__ENTERPRISE: '100000',
        ...(fault === null ? {} : { SLUICE_FAULT: fault }),
        ...env,
      },
    })
    return new RuntimeProcess(child, dataFolder)
  }

  get pid(): number {
    return this.#child.pid as number
  }

  get isEnded(): boolean {
    return this.#isEnded
  }

  /** The end of what it said on both streams. */
  get output(): string {
    return this.#output
  }

  /** The address where it serves, or null where it ended before. A killed process leaves its address file behind. */
  async address(): Promise<string | null> {
    const file = join(this.#dataFolder, 'runtime.json')
    for (const deadline = Date.now() + START_TIMEOUT_MS; Date.now() < deadline; await sleep(25)) {
      if (this.#isEnded) return null
      const text = await readFile(file, 'utf8').catch(() => '')
      const found = text.endsWith('}') ? (JSON.parse(text) as { url: string; pid: number }) : null
      if (found?.pid === this.pid) return found.url
    }
    throw new Error(`the runtime did not start in time:\n${this.#output}`)
  }

  kill(): void {
    if (!this.#isEnded) this.#child.kill('SIGKILL')
  }

  async stop(): Promise<Ended> {
    if (!this.#isEnded) this.#child.kill('SIGTERM')
    return this.ended
  }

  /** What it started and still runs: its session's processes, and servers on its data folder. */
  survivors(): readonly string[] {
    return listProcesses()
      .filter((one) => one.pid !== this.pid && (one.session === this.pid || one.command.includes(this.#dataFolder)))
      .map((one) => `${one.pid} ${one.command.slice(0, 200)}`)
  }

  /** Waits until nothing of it runs any more; returns what does after two minutes. */
  async lastSurvivors(): Promise<readonly string[]> {
    let found = this.survivors()
    for (const deadline = Date.now() + END_TIMEOUT_MS; found.length > 0 && Date.now() < deadline; ) {
      await sleep(50)
      found = this.survivors()
    }
    return found
  }

  /** A stopped runtime leaves no address and nothing in its scratch folder. */
  leftovers(): readonly string[] {
    const scratch = join(this.#dataFolder, 'scratch')
    const address = existsSync(join(this.#dataFolder, 'runtime.json')) ? ['runtime.json'] : []
    return [...address, ...(existsSync(scratch) ? readdirSync(scratch) : [])]
  }

  async forgetFolder(): Promise<void> {
    await rm(this.#dataFolder, { recursive: true, force: true })
  }
}

interface ListedProcess {
  readonly pid: number
  readonly session: number
  readonly command: string
}

function listProcesses(): readonly ListedProcess[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => {
      try {
        const stat = readFileSync(`/proc/${name}/stat`, 'utf8')
        const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
        if (fields[0] === 'Z') return []
        const command = readFileSync(`/proc/${name}/cmdline`, 'utf8').replaceAll('\0', ' ').trim()
        return [{ pid: Number(name), session: Number(fields[3]), command }]
      } catch {
        return []
      }
    })
}
