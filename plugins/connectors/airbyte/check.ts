/** Whether the program starts, takes its config, and reaches its source. */
import { type CheckReport, type CheckStep, type ConnectorHost, isSluiceError } from '@sluice/sdk'
import { answerInvalid, reported } from './failure.ts'
import { CONFIG_FILE, messagesOf } from './program.ts'
import type { AirbyteSource } from './settings.ts'

type Host = Pick<ConnectorHost, 'programs' | 'clock'>
const MAX_NAMED = 20

export async function checked(source: AirbyteSource, host: Host, signal: AbortSignal): Promise<CheckReport> {
  const startedMs = host.clock.nowMs()
  const steps: CheckStep[] = []
  for (const [name, look] of STEPS) {
    const step = await judged(name, () => look(source, host, signal))
    steps.push(step)
    if (!step.ok) break
  }
  return { ok: steps.every(({ ok }) => ok), steps, latencyMs: Math.max(0, host.clock.nowMs() - startedMs) }
}

type Look = (source: AirbyteSource, host: Host, signal: AbortSignal) => Promise<Omit<CheckStep, 'name'>>

const STEPS: readonly (readonly [CheckStep['name'], Look])[] = [
  ['tcp', specified],
  ['auth', connected],
]

async function judged(name: CheckStep['name'], look: () => Promise<Omit<CheckStep, 'name'>>): Promise<CheckStep> {
  try {
    return { name, ...(await look()) }
  } catch (error) {
    if (!isSluiceError(error) || error.code === 'aborted') throw error
    return { name, ok: false, message: error.message, remedy: error.remedy ?? 'Correct the settings.' }
  }
}

/** The names that its own specification asks for: they are the operator's, and no value is looked at. */
async function specified(source: AirbyteSource, host: Host, signal: AbortSignal): Promise<Omit<CheckStep, 'name'>> {
  let required: readonly string[] | null = null
  for await (const message of messagesOf(source, host, { words: ['spec'] }, signal)) {
    if (message.type !== 'spec') throw answerInvalid('it answers what it was not asked')
    const named = message.schema['required']
    required = Array.isArray(named) ? named.filter((name) => typeof name === 'string') : []
  }
  if (required === null) throw answerInvalid('it says nothing of what its config is')
  const missing = required.filter((name) => !source.configFields.includes(name)).slice(0, MAX_NAMED)
  if (missing.length === 0) return { ok: true, message: 'the connector starts, and says what its config is' }
  return {
    ok: false,
    message: `the config lacks ${missing.map((name) => JSON.stringify(name.toWellFormed().slice(0, 100))).join(', ')}`,
    remedy: 'Add to config what is missing, as the connector’s documentation describes.',
  }
}

async function connected(source: AirbyteSource, host: Host, signal: AbortSignal): Promise<Omit<CheckStep, 'name'>> {
  let succeeded: boolean | null = null
  const words = ['check', '--config', { file: CONFIG_FILE }]
  for await (const message of messagesOf(source, host, { words }, signal)) {
    if (message.type === 'connection') succeeded = message.succeeded
    else if (message.type !== 'state' && message.type !== 'status')
      throw answerInvalid('it answers what it was not asked')
  }
  if (succeeded === null) throw answerInvalid('it does not say whether it can be read')
  if (!succeeded) throw reported('config_error')
  return { ok: true, message: 'the connector takes its config, and reaches its source' }
}
