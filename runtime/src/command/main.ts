/** The `sluice` command. Exit codes: 0 done, 1 failed, 2 wrong use. */
import { existsSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { issueToken } from '../auth/embedded-issuer.ts'
import { type Config, loadConfig, redactedConfig } from '../config.ts'
import type { Level } from '../flow.ts'
import { type Arguments, parseArguments, required, UsageError } from './arguments.ts'
import { type Client, openClient } from './client.ts'

const USAGE = `sluice start                                   run the server (embedded unless sluice.yaml says otherwise)
sluice token --role admin                      a bearer token of the embedded issuer
sluice token --tenant T --group svc-developers|svc-viewers --user NAME [--clearance L] [--ttl 1h]
sluice tenant create SLUG --name TEXT --tier free|standard|enterprise
sluice tenant list
sluice connection create NAME --tenant T --type postgresql --config FILE.json
sluice connection list|test NAME|discover NAME --tenant T
sluice product init FOLDER                     six manifests to begin with
sluice product plan|deploy FOLDER --tenant T --version V
sluice product list --tenant T
sluice sync CONNECTION --tenant T              ingest now, and wait
sluice query SQL --tenant T
sluice logs RUN --tenant T                     progress and log lines of an ingestion run
sluice config                                  the effective configuration, secrets hidden

Every command takes --data-dir; those that talk to a server take --url, and SLUICE_TOKEN from the environment.`

const CONFIG_FLAGS = ['data-dir', 'port', 'host', 'config']

type Command = (args: Arguments, config: Config) => Promise<unknown>

export async function main(argv: readonly string[]): Promise<number> {
  try {
    const args = parseArguments(argv)
    const [name = 'help', ...rest] = args.words
    if (name === 'help' || args.flags['help']) return print(USAGE)
    const command = COMMANDS[name]
    if (!command) throw new UsageError(`there is no command "${name}"`)
    const result = await command({ ...args, words: rest }, configOf(args))
    if (result !== undefined) print(typeof result === 'string' ? result : JSON.stringify(result, null, 2))
    return 0
  } catch (error) {
    const wrongUse = error instanceof UsageError
    const remedy = (error as { remedy?: string }).remedy
    console.error(`sluice: ${(error as Error).message}${remedy ? `\n${remedy}` : ''}${wrongUse ? `\n\n${USAGE}` : ''}`)
    return wrongUse ? 2 : 1
  }
}

function print(text: string): number {
  console.log(text)
  return 0
}

/** Flags of one command are not flags of the configuration: only those named are, and `--a.b` ones. */
function configOf(args: Arguments): Config {
  const flags = Object.entries(args.flags).filter(([name]) => CONFIG_FLAGS.includes(name) || name.includes('.'))
  const { config: named, ...rest } = Object.fromEntries(flags)
  const file = named ?? process.env['SLUICE_CONFIG'] ?? (existsSync('sluice.yaml') ? 'sluice.yaml' : undefined)
  return loadConfig({ ...(file ? { file } : {}), environment: process.env, flags: rest })
}

const COMMANDS: Readonly<Record<string, Command>> = {
  start: async (_, config) => (await import('../main.ts')).runServer(config),
  token: async (args, config) => issueToken(config.data_dir, tokenSubject(args), { ttlS: ttlSeconds(args) }),
  config: async (_, config) => redactedConfig(config),
  tenant: withClient({
    create: (client, args, [slug]) =>
      client.request('POST', '/api/v1/tenants', {
        slug: named(slug, 'SLUG'),
        display_name: args.flags['name'] ?? slug,
        tier: args.flags['tier'] ?? 'standard',
      }),
    list: (client) => client.request('GET', '/api/v1/tenants'),
  }),
  connection: withClient({
    create: async (client, args, [name]) =>
      client.request('POST', '/api/v1/connections', {
        name: named(name, 'NAME'),
        connector_type: args.flags['type'] ?? 'postgresql',
        config_encrypted: await readFile(required(args, 'config'), 'utf8'),
      }),
    list: (client) => client.request('GET', '/api/v1/connections'),
    test: (client, _, [name]) => client.request('POST', `/api/v1/connections/${segment(name)}/test`),
    discover: (client, _, [name]) => client.request('GET', `/api/v1/connections/${segment(name)}/discover`),
  }),
  product: async (args, config) => {
    if (args.words[0] === 'init')
      return (await import('./product-files.ts')).initProduct(named(args.words[1], 'FOLDER'))
    return productCommands(args, config)
  },
  sync: async (args, config) => {
    const client = await openClient(args, config.data_dir)
    const run = (await client.request('POST', `/api/v1/connections/${segment(args.words[0])}/sync`)) as Run
    return waitForRun(client, run.id)
  },
  query: async (args, config) => {
    const client = await openClient(args, config.data_dir)
    return client.request('POST', '/api/v1/query', { sql: named(args.words[0], 'SQL') })
  },
  logs: async (args, config) => {
    const client = await openClient(args, config.data_dir)
    return client.request('GET', `/api/v1/ingestion/${segment(args.words[0])}`)
  },
}

type ClientCommand = (client: Client, args: Arguments, words: readonly string[]) => Promise<unknown>

function withClient(commands: Readonly<Record<string, ClientCommand>>): Command {
  return async (args, config) => {
    const [name = '', ...words] = args.words
    const command = commands[name]
    if (!command) throw new UsageError(`one of ${Object.keys(commands).join(', ')} must follow`)
    return command(await openClient(args, config.data_dir), args, words)
  }
}

const productCommands = withClient({
  list: (client) => client.request('GET', '/api/v1/products'),
  plan: (client, args, [folder]) => deploy(client, args, folder, true),
  deploy: (client, args, [folder]) => deploy(client, args, folder, false),
})

/** Registers the product where it is new, uploads the folder's manifests, and plans or deploys the version. */
async function deploy(client: Client, args: Arguments, folder: string | undefined, dryRun: boolean): Promise<unknown> {
  const directory = named(folder, 'FOLDER')
  const parts: Record<string, string> = {}
  for (const file of await readdir(directory)) {
    if (file.endsWith('.yaml')) parts[file.slice(0, -'.yaml'.length)] = await readFile(join(directory, file), 'utf8')
  }
  const { parse } = await import('yaml')
  const product = parse(parts['product'] ?? '') as Record<string, string>
  const path = `/api/v1/products/${encodeURIComponent(`${product['namespace']}.${product['name']}`)}`
  const known = await client.request('GET', path).catch(() => null)
  if (known === null) {
    const { name, namespace, archetype, description } = product
    await client.request('POST', '/api/v1/products', { name, namespace, archetype, description: description ?? '' })
  }
  await client.upload(`${path}/manifests`, parts)
  return client.request('POST', `${path}/deploy`, { version: required(args, 'version'), dry_run: dryRun })
}

interface Run {
  readonly id: string
  readonly state: string
  readonly error?: { readonly message?: string; readonly remedy?: string } | null
}

async function waitForRun(client: Client, id: string): Promise<unknown> {
  for (;;) {
    const run = (await client.request('GET', `/api/v1/ingestion/${id}`)) as Run
    if (run.state === 'failed')
      throw new Error(`the run failed: ${run.error?.message ?? ''} ${run.error?.remedy ?? ''}`)
    if (run.state !== 'queued' && run.state !== 'running') return run
    await new Promise((resolve) => setTimeout(resolve, 500))
  }
}

function tokenSubject(args: Arguments) {
  if (args.flags['role'] === 'admin') return { role: 'admin', user: args.flags['user'] ?? 'admin' } as const
  if (args.flags['role']) throw new UsageError('the only role is admin; people of a tenant have groups')
  const clearance = args.flags['clearance']
  const groups = args.flags['group'] ? args.flags['group'].split(',') : []
  return {
    tenant: required(args, 'tenant'),
    groups,
    user: required(args, 'user'),
    ...(clearance ? { clearance: clearance as Level } : {}),
    ...(args.flags['email'] ? { email: args.flags['email'] } : {}),
  }
}

function ttlSeconds(args: Arguments): number {
  const match = /^(\d{1,5})([smh])$/.exec(args.flags['ttl'] ?? '1h')
  if (!match) throw new UsageError('--ttl is a number and s, m or h: 1h')
  return Number(match[1]) * { s: 1, m: 60, h: 3600 }[match[2] as 's' | 'm' | 'h']
}

function named(word: string | undefined, what: string): string {
  if (word === undefined) throw new UsageError(`${what} is missing`)
  return word
}

function segment(word: string | undefined): string {
  return encodeURIComponent(named(word, 'NAME'))
}
