/** What is wrong with files, in words that say what to do. Paths are quoted: a name may hold anything. */
import { SluiceError } from '@sluice/sdk'

const MAX_PATH_CHARACTERS = 200

/** As JSON, so that a name cannot end a line or hide what follows. */
export function quotedPath(path: string): string {
  const text = path.toWellFormed()
  return JSON.stringify(text.length > MAX_PATH_CHARACTERS ? `${text.slice(0, MAX_PATH_CHARACTERS)}…` : text)
}

export function stopIfAborted(signal: AbortSignal): void {
  if (signal.aborted)
    throw new SluiceError('TRANSIENT', 'the caller has left', { code: 'aborted', remedy: 'Start it again.' })
}

export function fileChanged(path: string, cause?: unknown): SluiceError {
  return new SluiceError('TRANSIENT', `${quotedPath(path)} was changed while it was to be read`, {
    code: 'source_file_changed',
    remedy: 'Nothing was taken over: sync again. Write files under another name, and rename them once they are whole.',
    cause,
  })
}

export function fileInvalid(path: string, why: string, remedy: string, cause?: unknown): SluiceError {
  return new SluiceError('INVALID_DATA', `${quotedPath(path)}: ${why}`, {
    code: 'source_file_invalid',
    remedy,
    cause,
  })
}

export function requestInvalid(message: string): SluiceError {
  return new SluiceError('INVALID_DATA', message, { code: 'source_request_invalid', remedy: 'Discover again.' })
}

export function tooMany(what: string, remedy: string): SluiceError {
  return new SluiceError('QUOTA', what, { code: 'source_too_many_files', remedy })
}
