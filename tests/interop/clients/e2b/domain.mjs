// domain.mjs - E2B_DOMAIN instead of the two addresses; see domain.py.
import assert from 'node:assert/strict'
import { appendFileSync } from 'node:fs'
import { test } from 'node:test'
import { load } from './kit.mjs'

const { Sandbox } = await load('@e2b/code-interpreter')

test('every capability is at the sandbox\'s own host', async () => {
  const made = await Sandbox.create()
  const name = process.env.E2B_DOMAIN.split(':')[0]
  appendFileSync('/etc/hosts', `127.0.0.1 49983-${made.sandboxId}.${name} 49999-${made.sandboxId}.${name}\n`)
  try {
    assert.equal((await made.commands.run('echo hi')).stdout, 'hi\n')
    await made.files.write('a.txt', 'text')
    assert.equal(await made.files.read('a.txt'), 'text')
    assert.equal((await made.runCode('6 * 7')).text, '42')
    assert.equal(await (await fetch(await made.downloadUrl('a.txt'))).text(), 'text')
    assert.equal(made.getHost(3000), `3000-${made.sandboxId}.${process.env.E2B_DOMAIN}`)
    assert.equal(await made.isRunning(), true)
  } finally {
    await made.kill()
  }
  assert.equal(await made.isRunning(), false)
})
