/** What a connection says: which of the operator's programs, and the program's own config, all of it as a secret. */
import { type JsonSchema, SluiceError } from '@sluice/sdk'

export interface AirbyteSettings {
  readonly program: string
  readonly config: string
  readonly silence_s?: number
}

export interface AirbyteSource {
  readonly program: string
  /** As the program is given it. */
  readonly config: string
  readonly configFields: readonly string[]
  readonly silenceMs: number
}

const MAX_CONFIG_CHARACTERS = 64 * 1024
const MAX_DEPTH = 32
const SILENCE_S = 600
const PROGRAM = /^[a-z][a-z0-9_-]{0,62}$/

export const settingsSchema = {
  type: 'object',
  additionalProperties: false,
  required: ['program', 'config'],
  properties: {
    program: {
      type: 'string',
      minLength: 1,
      maxLength: 63,
      description: 'Which connector, by its name under programs.airbyte in the operator’s configuration.',
      examples: ['faker'],
    },
    config: {
      type: 'string',
      minLength: 2,
      maxLength: MAX_CONFIG_CHARACTERS,
      'x-secret': true,
      description:
        'The connector’s own config, a JSON object as its documentation describes. All of it is kept as a secret.',
    },
    silence_s: {
      type: 'integer',
      minimum: 1,
      maximum: 3600,
      default: SILENCE_S,
      description: 'How long the connector may bring no row and no other news, as while it waits for a rate limit.',
    },
  },
  examples: [{ program: 'faker', config: '{"count": 1000, "seed": 1}' }],
} as const satisfies JsonSchema

/** Throws CONFIG `settings_invalid`. */
export function parseSettings(settings: AirbyteSettings): AirbyteSource {
  const { program, config, silence_s = SILENCE_S, ...others } = settings
  if (Object.keys(others).length > 0)
    throw wrong('there are settings of no known name', 'Give program, config and silence_s.')
  if (typeof program !== 'string' || !PROGRAM.test(program))
    throw wrong('program is no name', 'Name a program that the operator allows.')
  if (!Number.isInteger(silence_s) || silence_s < 1 || silence_s > 3600)
    throw wrong('silence_s is no number of seconds', 'Use 1 to 3600.')
  if (typeof config !== 'string' || config.length > MAX_CONFIG_CHARACTERS)
    throw wrong(
      'config is no text, or too long a one',
      `Give a JSON object of at most ${MAX_CONFIG_CHARACTERS} characters.`,
    )
  const document = documentOf(config)
  refuseInjected(document, 0)
  return { program, config, configFields: Object.keys(document), silenceMs: silence_s * 1000 }
}

function documentOf(config: string): object {
  try {
    const document: unknown = JSON.parse(config)
    if (typeof document === 'object' && document !== null && !Array.isArray(document)) return document
  } catch {
    // Not with its own words, which hold what it could not read.
  }
  throw wrong('config is no JSON object', 'Give the connector’s config as one JSON object.')
}

/**
 * The names by which a config brings a connector of its own along: a manifest, with templates and code in it, in place of the
 * operator's (`__injected_declarative_manifest`, `__injected_components_py`), and whatever else begins so.
 */
function refuseInjected(value: unknown, depth: number): void {
  if (typeof value !== 'object' || value === null) return
  if (depth > MAX_DEPTH) throw wrong('config is nested too deeply', `Use at most ${MAX_DEPTH} levels.`)
  for (const [name, inner] of Object.entries(value)) {
    if (name.startsWith('__'))
      throw wrong(
        'config has a field whose name begins with "__"',
        'Leave it away: manifests and code are the operator’s to install, and no connection brings its own.',
      )
    refuseInjected(inner, depth + 1)
  }
}

function wrong(what: string, remedy: string): SluiceError {
  return new SluiceError('CONFIG', `the settings are not valid: ${what}`, { code: 'settings_invalid', remedy })
}
