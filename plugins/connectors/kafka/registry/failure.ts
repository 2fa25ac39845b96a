/** What went wrong with a schema registry, in words that say what to do. */
import { isSluiceError, SluiceError } from '@sluice/sdk'
import { bare, lineMeaning, type Meaning, PasswordWithheld } from '../../server/failure.ts'
import { aborted, kafkaFailure } from '../failure.ts'

const WHERE = 'asking the schema registry'

/** It does not speak as a registry does; the message holds nothing of it. */
export class RegistryAnswer extends Error {
  override readonly name = 'RegistryAnswer'
}

export function registryFailure(error: unknown, signal: AbortSignal): SluiceError {
  if (isSluiceError(error)) return error
  if (signal.aborted) return aborted(signal.reason)
  if (error instanceof RegistryAnswer)
    return failure(error, {
      kind: 'INVALID_DATA',
      code: 'source_answer_invalid',
      what: error.message,
      remedy: 'Check registry_url: it is where /subjects and /schemas of a registry lie.',
    })
  if (error instanceof PasswordWithheld)
    return failure(error, {
      kind: 'CONFIG',
      code: 'cleartext_password_refused',
      what: 'the login would travel in clear',
      remedy: 'Use an address of https in registry_url; or let the operator allow it.',
    })
  const meaning = lineMeaning(error)
  if (meaning !== null && meaning.kind === 'CONFIG')
    return failure(error, { ...meaning, remedy: 'Check registry_url and registry_ca.' })
  const isCut = /^(ECONNRESET|EPIPE|HPE_)/.test(String((error as { code?: unknown } | null)?.code))
  if (isCut)
    return failure(error, {
      kind: 'TRANSIENT',
      code: 'source_lost',
      what: 'it closed the connection before its answer was whole, or its answer is no HTTP',
      remedy: 'Nothing was taken over: it is tried again. Check registry_url and the log of the registry.',
    })
  return kafkaFailure(error, WHERE, signal)
}

/** By the status of an answer that tells no schema. */
export function refusal(status: number): SluiceError {
  if (status === 401)
    return failure(null, {
      kind: 'CONFIG',
      code: 'source_login_refused',
      what: 'it refuses the login',
      remedy: 'Check registry_user and registry_password, or registry_token.',
    })
  if (status === 403)
    return failure(null, {
      kind: 'PERMISSION',
      code: 'source_permission_denied',
      what: 'the login may not read this schema',
      remedy: 'Let it read the subjects of the topics, and schemas by their numbers.',
    })
  if (status >= 500 || status === 408 || status === 429)
    return failure(null, {
      kind: 'TRANSIENT',
      code: 'source_busy',
      what: `it answers with status ${status}`,
      remedy: 'Nothing was taken over: it is tried again. Look into the log of the registry.',
    })
  return registryFailure(new RegistryAnswer(`it answers with status ${status} and no schema`), NEVER)
}

export function subjectMissing(subject: string): SluiceError {
  return failure(null, {
    kind: 'INVALID_DATA',
    code: 'source_schema_missing',
    what: `it has no schema of the subject ${JSON.stringify(subject.slice(0, 200))}`,
    remedy: 'Name the subject of the topic in tables (subject, key_subject), or register its schema.',
  })
}

export function schemaUnusable(subject: string, why: string): SluiceError {
  return failure(null, {
    kind: 'INVALID_DATA',
    code: 'source_schema_missing',
    what: `the latest schema of the subject ${JSON.stringify(subject.slice(0, 200))} is of no use: ${why}`,
    remedy: 'Register a schema of Avro that is a record.',
  })
}

const NEVER = new AbortController().signal

function failure(cause: unknown, { kind, code, what, remedy }: Meaning): SluiceError {
  return new SluiceError(kind, `${WHERE}: ${what}`, { code, remedy, ...(cause === null ? {} : { cause: bare(cause) }) })
}
