/** What the connector asks of whatever holds files: a folder, a bucket. */
import type { CheckStep } from '@sluice/sdk'
import type { Glob } from './glob.ts'

export interface SourceFile {
  /** Under the folder, its names parted by `/`. */
  readonly path: string
  readonly bytes: number
  /** Another text for every change of the file. */
  readonly version: string
}

/** A file that was opened as it had been listed. */
export interface OpenFile {
  /** Its bytes, once. Throws TRANSIENT `source_file_changed` where the file was written to meanwhile. */
  chunks(signal: AbortSignal): AsyncIterable<Uint8Array>
  /** So many bytes from a place on, all of which lie within it; any number of times. Throws as `chunks` does. */
  read(from: number, length: number, signal: AbortSignal): Promise<Buffer>
  close(): Promise<void>
}

export interface FileStore {
  /** So many are opened before the first row is given: who replaces one of them meanwhile changes nothing. */
  readonly openedAtOnce: number
  /** The steps up to the files themselves; the last one may have failed. Does not throw for what a step can say. */
  check(signal: AbortSignal): Promise<readonly CheckStep[]>
  /** Folders at the top, in order, in which a table may be described. */
  folders(signal: AbortSignal): Promise<readonly string[]>
  /** Those that match, by path. Throws QUOTA where there are too many to look at. */
  list(glob: Glob, signal: AbortSignal): Promise<readonly SourceFile[]>
  /** Null where there is none. */
  find(path: string, signal: AbortSignal): Promise<SourceFile | null>
  /** Throws TRANSIENT `source_file_changed` where it is not as it was listed. */
  open(file: SourceFile, signal: AbortSignal): Promise<OpenFile>
}
