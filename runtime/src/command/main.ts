/** The `sluice` command. Exit codes: 0 done, 1 failed, 2 wrong use. */
import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import type { ConfigSources } from '../config.ts'
import { APPLICATION_KEY_COMMANDS } from './application-key-commands.ts'
import { type Arguments, parseArguments, UsageError } from './arguments.ts'
import {
  type Command,
  callOf,
  checkFlags,
  commandsUnder,
  findCommand,
  helpOf,
  meantCommand,
  overview,
} from './command.ts'
import { CONFIG_COMMANDS } from './config-command.ts'
import { CONNECTION_COMMANDS } from './connection-commands.ts'
import { GRANT_COMMANDS } from './grant-commands.ts'
import { LAKE_COMMANDS } from './lake-command.ts'
import { PLUGIN_COMMANDS } from './plugin-commands.ts'
import { PRODUCT_COMMANDS } from './product-commands.ts'
import { QUERY_COMMANDS } from './query-command.ts'
import { RUN_COMMANDS } from './run-commands.ts'
import { TENANT_COMMANDS } from './tenant-commands.ts'
import { TOKEN_COMMANDS } from './token-command.ts'

/** Flags of the configuration; those with a dot (`--auth.audience`) are so everywhere. */
const CONFIG_FLAGS = ['data-dir', 'port', 'host', 'config', 'allow-unproved']

const COMMANDS: Readonly<Record<string, Command>> = {
  start: {
    usage: 'start',
    summary: 'run the server, embedded unless sluice.yaml says otherwise',
    flags: {
      port: 'default 8080; 0 picks a free one',
      host: 'default 127.0.0.1',
      'allow-unproved': 'for development: use plugins that no certificate proves',
    },
    run: async ({ config }) => (await import('../main.ts')).runServer(config),
  },
  ...TOKEN_COMMANDS,
  ...TENANT_COMMANDS,
  ...CONNECTION_COMMANDS,
  ...PRODUCT_COMMANDS,
  ...GRANT_COMMANDS,
  ...APPLICATION_KEY_COMMANDS,
  ...RUN_COMMANDS,
  ...QUERY_COMMANDS,
  ...PLUGIN_COMMANDS,
  ...LAKE_COMMANDS,
  ...CONFIG_COMMANDS,
}

export async function main(argv: readonly string[]): Promise<number> {
  let help = overview(Object.values(COMMANDS))
  try {
    if (argv[0] === '--version' || argv[0] === 'version') return print(ownVersion())
    const args = parseArguments(argv)
    const [first, ...others] = args.words
    if (first === undefined || first === 'help') return print(helpFor(others))
    const found = findCommand(COMMANDS, args.words)
    if (found === null || args.flags['help']) return print(helpFor(args.words))
    help = helpOf(found.command)
    checkFlags(found.command, args, CONFIG_FLAGS)
    const result = await found.command.run(callOf(args, found.rest, sourcesOf(args)))
    if (result !== undefined) print(typeof result === 'string' ? result : JSON.stringify(result, null, 2))
    return 0
  } catch (error) {
    return fail(error, help)
  }
}

function ownVersion(): string {
  const manifest = createRequire(import.meta.url)('@sluice/runtime/package.json') as { readonly version: string }
  return manifest.version
}

function helpFor(words: readonly string[]): string {
  const exact = COMMANDS[words.join(' ')] ?? findCommand(COMMANDS, words)?.command
  if (exact) return helpOf(exact)
  const group = commandsUnder(COMMANDS, words)
  if (group.length > 0) return overview(group)
  const meant = meantCommand(COMMANDS, words)
  throw new UsageError(`there is no command "${words.join(' ')}"${meant === null ? '' : `; did you mean "${meant}"?`}`)
}

function fail(error: unknown, help: string): number {
  const wrongUse = error instanceof UsageError
  const message = inWords(error as NodeJS.ErrnoException)
  const remedy = (error as { readonly remedy?: string }).remedy
  console.error([`sluice: ${message}`, ...(remedy ? [remedy] : []), ...(wrongUse ? ['', help] : [])].join('\n'))
  return wrongUse ? 2 : 1
}

const WHY_NOT: Readonly<Record<string, string>> = {
  EACCES: 'this account may not do that there',
  EPERM: 'this account may not do that there',
  EROFS: 'nothing can be written there',
  ENOSPC: 'the disk is full',
  EDQUOT: 'this account has used up its part of the disk',
  EISDIR: 'it is a folder',
  ENOTDIR: 'it, or what it should lie in, is no folder',
  EEXIST: 'something else is there',
  ENOENT: 'it does not exist, and cannot be made',
  EMFILE: 'too many files are open',
}

/** What the system refused, as whoever is at the terminal would say it. */
function inWords({ message, code = '', path, syscall }: NodeJS.ErrnoException): string {
  const reason = WHY_NOT[code]
  return reason === undefined || syscall === undefined ? message : `${path ?? syscall}: ${reason}`
}

function print(text: string): number {
  console.log(text)
  return 0
}

/** Flags of one command are not flags of the configuration: only those named are, and `--a.b` ones. */
function sourcesOf(args: Arguments): ConfigSources {
  const flags = Object.entries(args.flags).filter(([name]) => CONFIG_FLAGS.includes(name) || name.includes('.'))
  const { config: named, ...rest } = Object.fromEntries(flags)
  const file = named ?? process.env['SLUICE_CONFIG'] ?? (existsSync('sluice.yaml') ? 'sluice.yaml' : undefined)
  return { ...(file ? { file } : {}), environment: process.env, flags: rest }
}
