/** `sluice config`: what is in force, and what its keys mean. */
import { type Config, type ConfigSources, originOf, redactedConfig } from '../config.ts'
import { nearest } from '../parsing/suggestion.ts'
import { UsageError } from './arguments.ts'
import type { CommandCall } from './command.ts'
import { type ConfigKey, configKeys, keysUnder } from './config-reference.ts'

export async function configShown(call: CommandCall): Promise<unknown> {
  const { sources, args, words } = call
  const [key] = words
  if (args.flags['explain']) return explained(call, key)
  if (key !== undefined) throw new UsageError(`"${key}" is no flag; did you mean --explain ${key}?`)
  const config = await call.config()
  if (args.flags['check']) await (await import('../assembly/checked-config.ts')).checkConfig(config)
  if (args.flags['check']) return `The configuration is valid (${sources.file ?? 'no file'}).`
  return redactedConfig(config)
}

/** A configuration that is not valid has no values in force, and is what somebody may want to look keys up for. */
async function explained(call: CommandCall, path: string | undefined): Promise<string> {
  const keys = path === undefined ? configKeys() : keysUnder(path)
  if (keys.length === 0) throw new UsageError(unknownKey(path ?? ''))
  const config = await configOf(call)
  const problem = typeof config === 'string' ? [config] : []
  const shown = typeof config === 'string' ? null : (redactedConfig(config) as Config)
  return [...keys.map((key) => textOf(key, shown, call.sources)), ...problem].join('\n\n')
}

async function configOf(call: CommandCall): Promise<Config | string> {
  try {
    return await call.config()
  } catch (error) {
    return `Nothing is in force: ${(error as Error).message}.`
  }
}

function textOf(key: ConfigKey, config: Config | null, sources: ConfigSources): string {
  const { path, description, type, default: preset, isRequired, variable } = key
  const force = config === null ? null : inForce(path, config, sources)
  const facts = [
    ['type', type],
    ['default', preset ?? (isRequired ? 'none, it has to be set' : 'none')],
    ...(variable === null ? [] : [['variable', variable]]),
    ...(force === null ? [] : [['in force', force]]),
  ]
  return [path, `  ${description}`, ...facts.map(([name = '', value]) => `  ${name.padEnd(10)}${value}`)].join('\n')
}

/** Null where it cannot be told of one value: of entries of a list, and of any name in a map. */
function inForce(path: string, config: Config, sources: ConfigSources): string | null {
  const parts = path.split('.')
  if (parts.some((part) => part === '*' || part.endsWith('[]'))) return null
  let value: unknown = config
  for (const part of parts) value = (value as Readonly<Record<string, unknown>> | undefined)?.[part]
  const origin = originOf(sources, parts)
  const from = origin === null ? 'default' : `from ${origin}`
  return value === undefined ? 'not set' : `${typeof value === 'string' ? value : JSON.stringify(value)} (${from})`
}

function unknownKey(path: string): string {
  const paths = configKeys().map((key) => key.path)
  const groups = paths.flatMap((one) => one.split('.').map((_, index, parts) => parts.slice(0, index + 1).join('.')))
  const close = nearest(path, new Set(groups))
  return `the configuration has no key "${path}"${close === undefined ? '' : `; did you mean ${close}?`}`
}
