/** Kafka's own console consumer, as a login of a tenant runs it. */
import { type ChildProcess, spawn } from 'node:child_process'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { javaCommand } from '../java.ts'
import { installedKafka, MIN_JAVA } from '../servers/kafka.ts'

const JVM_FLAGS = ['-Xmx96m', '-XX:TieredStopAtLevel=1', '-XX:+UseSerialGC']
const WAIT_MS = 120_000

export interface Login {
  readonly user: string
  readonly password: string
}

/** One message of a change topic. `value` is null where the row is gone. */
export interface Change {
  readonly partition: number
  readonly offset: number
  readonly headers: Readonly<Record<string, string>>
  readonly key: Readonly<Record<string, unknown>>
  readonly value: Readonly<Record<string, unknown>> | null
}

/** Reads committed messages of one topic from its beginning, until it is closed. */
export class ConsoleConsumer {
  readonly #child: ChildProcess
  readonly #ended: Promise<unknown>
  #output = ''
  #errors = ''

  private constructor(child: ChildProcess) {
    this.#child = child
    this.#ended = new Promise((resolve) => child.once('exit', resolve))
    child.stdout?.on('data', (chunk: Buffer) => {
      this.#output += chunk.toString()
    })
    child.stderr?.on('data', (chunk: Buffer) => {
      this.#errors = (this.#errors + chunk.toString()).slice(-20_000)
    })
  }

  static async open(broker: string, topic: string, login: Login, folder: string): Promise<ConsoleConsumer> {
    const [java, jars] = await Promise.all([javaCommand(MIN_JAVA), installedKafka()])
    await mkdir(folder, { recursive: true })
    const config = join(folder, `${login.user}.properties`)
    await writeFile(config, loginProperties(login))
    const shown = ['print.headers', 'print.key', 'print.offset', 'print.partition'].map((name) => `${name}=true`)
    const args = [
      ...['--bootstrap-server', broker, '--topic', topic, '--command-config', config, '--from-beginning'],
      ...['--isolation-level', 'read_committed', '--group', `sluice-changes.acme.${login.user}.${crypto.randomUUID()}`],
      ...[...shown, 'headers.separator=|', 'null.literal=null'].flatMap((one) => ['--formatter-property', one]),
    ]
    const main = ['-cp', join(jars, '*'), 'org.apache.kafka.tools.consumer.ConsoleConsumer']
    return new ConsoleConsumer(spawn(java, [...JVM_FLAGS, ...main, ...args], { stdio: ['ignore', 'pipe', 'pipe'] }))
  }

  /** Everything that it has printed. */
  get text(): string {
    return this.#output
  }

  /** What it has printed, in the order of each partition. */
  get changes(): readonly Change[] {
    const lines = this.#output.split('\n').slice(0, -1)
    return lines.filter((line) => line.startsWith('Partition:')).map(parseChange)
  }

  /** Waits until what it has read is enough; throws with what it said where it ended, or that does not come. */
  async until(isEnough: (changes: readonly Change[]) => boolean): Promise<readonly Change[]> {
    for (const deadline = Date.now() + WAIT_MS; Date.now() < deadline; await sleep(50)) {
      if (isEnough(this.changes)) return this.changes
      if (this.#child.exitCode !== null) throw new Error(`the consumer ended:\n${this.#errors}`)
    }
    throw new Error(`the consumer was not given it in time:\n${this.#output.slice(-4000)}\n${this.#errors}`)
  }

  /** What it complained of when it ended by itself. */
  async refusal(): Promise<string> {
    await this.#ended
    return this.#output + this.#errors
  }

  async close(): Promise<void> {
    if (this.#child.exitCode === null) this.#child.kill('SIGKILL')
    await this.#ended
  }
}

function loginProperties({ user, password }: Login): string {
  return `security.protocol=SASL_PLAINTEXT
sasl.mechanism=PLAIN
sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username="${user}" password="${password}";
`
}

/** `Partition:0⇥Offset:3⇥name:value|name:value⇥key⇥value` */
function parseChange(line: string): Change {
  const [partition = '', offset = '', headers = '', key = '', value = ''] = line.split('\t')
  const number = (text: string) => Number(text.slice(text.indexOf(':') + 1))
  return {
    partition: number(partition),
    offset: number(offset),
    headers: Object.fromEntries(
      headers.split('|').map((one) => [one.slice(0, one.indexOf(':')), one.slice(one.indexOf(':') + 1)]),
    ),
    key: JSON.parse(key),
    value: JSON.parse(value),
  }
}
