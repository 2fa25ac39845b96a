/** The certificates of the policy endpoint that Trino asks. */
import { readFile } from 'node:fs/promises'
import { SluiceError } from '@sluice/sdk'
import type { Config } from '../config.ts'
import type { PolicyListenerOptions } from '../http/policy-listener.ts'

/** Null where Trino is not to be answered. Throws CONFIG `invalid_config` where only a part of it is set. */
export async function policyTls({ trino }: Config): Promise<PolicyListenerOptions['tls'] | null> {
  const files = [trino.policy_cert_file, trino.policy_key_file, trino.policy_client_ca_file]
  if (files.every((file) => file === undefined)) return null
  try {
    const [cert = '', key = '', clientCa = ''] = await Promise.all(
      files.map((file) => readFile(file as string, 'utf8')),
    )
    return { cert, key, clientCa }
  } catch (cause) {
    throw new SluiceError('CONFIG', 'the policy endpoint of Trino has no certificates', {
      code: 'invalid_config',
      remedy: 'Name three readable files: trino.policy_cert_file, policy_key_file and policy_client_ca_file.',
      cause,
    })
  }
}
