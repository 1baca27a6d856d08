//! Tests of the encoding: documents are read back by an independent decoder.

use super::{v2, v3};
use serde_json::json;

/// Fields of a message in order: number and content (for varints the value as bytes).
fn fields(mut bytes: &[u8]) -> Vec<(u64, Vec<u8>)> {
    let mut out = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let content = match key & 7 {
            0 => varint(&mut bytes).to_le_bytes().to_vec(),
            1 => bytes.split_off(..8).unwrap().to_vec(),
            2 => {
                let length = usize::try_from(varint(&mut bytes)).unwrap();
                bytes.split_off(..length).unwrap().to_vec()
            }
            other => panic!("wire type {other}"),
        };
        out.push((key >> 3, content));
    }
    out
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..).step_by(7) {
        let byte = bytes.split_off_first().unwrap();
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            break;
        }
    }
    value
}

/// Content at a path of field numbers; the first field of each number counts.
fn at(bytes: &[u8], path: &[u64]) -> Vec<u8> {
    path.iter().fold(bytes.to_vec(), |bytes, number| {
        let found = fields(&bytes).into_iter().find(|(n, _)| n == number);
        found.unwrap_or_else(|| panic!("no field {number} of {path:?}")).1
    })
}

fn text(bytes: &[u8], path: &[u64]) -> String {
    String::from_utf8(at(bytes, path)).unwrap()
}

#[test]
fn v2_documents_have_the_field_numbers_of_gnostic() {
    let bytes = v2(&json!({
        "swagger": "2.0",
        "info": {"title": "T", "version": "v1"},
        "paths": {"/a": {
            "parameters": [{"name": "ns", "in": "path", "required": true, "type": "string", "uniqueItems": true}],
            "post": {
                "operationId": "createA", "tags": ["x"], "consumes": ["*/*"],
                "parameters": [{"$ref": "#/parameters/body-1"}],
                "responses": {"200": {"description": "OK", "schema": {"$ref": "#/definitions/A"}}},
                "x-kubernetes-action": "post",
            },
        }},
        "definitions": {"A": {
            "type": "object", "required": ["b"], "description": "d",
            "properties": {
                "b": {"type": "array", "items": {"type": "string", "enum": ["x", "y"]}, "maxItems": 300},
                "c": {"type": "object", "additionalProperties": {"$ref": "#/definitions/A"}},
                "d": {"type": "object", "additionalProperties": true},
            },
            "x-kubernetes-group-version-kind": [{"group": "g", "version": "v1", "kind": "A"}],
        }},
        "parameters": {"body-1": {"name": "body", "in": "body", "schema": {"$ref": "#/definitions/A"}}},
        "security": [{"BearerToken": []}],
    }));
    assert_eq!(
        (text(&bytes, &[1]), text(&bytes, &[2, 1]), text(&bytes, &[2, 2])),
        ("2.0".into(), "T".into(), "v1".into())
    );
    let path = at(&bytes, &[8, 2]);
    assert_eq!(text(&path, &[1]), "/a");
    let parameter = at(&path, &[2, 9, 1, 2, 4]);
    assert_eq!((text(&parameter, &[4]), text(&parameter, &[2])), ("ns".into(), "path".into()));
    assert_eq!((at(&parameter, &[1])[0], at(&parameter, &[18])[0]), (1, 1));
    let post = at(&path, &[2, 4]);
    assert_eq!((text(&post, &[5]), text(&post, &[7])), ("createA".into(), "*/*".into()));
    assert_eq!(text(&post, &[8, 2, 1]), "#/parameters/body-1");
    assert_eq!(text(&post, &[9, 1, 1]), "200");
    assert_eq!(text(&post, &[9, 1, 2, 1, 2, 1, 1]), "#/definitions/A");
    assert_eq!(
        (text(&post, &[13, 1]), text(&post, &[13, 2, 2])),
        ("x-kubernetes-action".into(), "post\n".into())
    );
    let schema = at(&bytes, &[9, 1, 2]);
    assert_eq!((text(&schema, &[22, 1]), text(&schema, &[19])), ("object".into(), "b".into()));
    let properties = fields(&at(&schema, &[25]));
    let names: Vec<String> = properties.iter().map(|(_, p)| text(p, &[1])).collect();
    assert_eq!(names, ["b", "c", "d"]);
    assert_eq!(at(&properties[0].1, &[2, 14])[..2], [44, 1], "maxItems: 300");
    assert_eq!(text(&properties[0].1, &[2, 23, 1, 20, 2]), "x\n");
    assert_eq!(text(&properties[1].1, &[2, 21, 1, 1]), "#/definitions/A");
    assert_eq!(at(&properties[2].1, &[2, 21, 2])[0], 1);
    assert!(text(&schema, &[31, 2, 2]).contains("kind: A"));
    assert_eq!(text(&bytes, &[10, 1, 2, 1, 2]), "body");
    assert_eq!(text(&bytes, &[12, 1, 1]), "BearerToken");
}

#[test]
fn v3_documents_have_the_field_numbers_of_gnostic() {
    let bytes = v3(&json!({
        "openapi": "3.0.0",
        "info": {"title": "T", "version": "v1"},
        "paths": {"/a": {
            "parameters": [{"name": "ns", "in": "path", "required": true, "schema": {"type": "string"}}],
            "put": {
                "operationId": "replaceA",
                "requestBody": {"required": true, "content": {"*/*": {"schema": {"$ref": "#/components/schemas/A"}}}},
                "responses": {"401": {"description": "Unauthorized"}},
            },
        }},
        "components": {
            "schemas": {"A": {"properties": {
                "b": {"allOf": [{"$ref": "#/components/schemas/A"}], "default": {}},
                "c": {"type": "string", "default": "TCP", "x-kubernetes-list-type": "set"},
            }}},
            "securitySchemes": {"BearerToken": {"type": "apiKey", "in": "header", "name": "authorization"}},
        },
    }));
    assert_eq!((text(&bytes, &[1]), text(&bytes, &[2, 6])), ("3.0.0".into(), "v1".into()));
    assert_eq!(text(&bytes, &[4, 1, 2, 13, 1, 10, 1, 25]), "string");
    let put = at(&bytes, &[4, 1, 2, 5]);
    assert_eq!(text(&put, &[7, 1, 2, 1, 1]), "*/*");
    assert_eq!(text(&put, &[7, 1, 2, 1, 2, 1, 2, 1]), "#/components/schemas/A");
    assert_eq!((text(&put, &[8, 2, 1]), text(&put, &[8, 2, 2, 1, 1])), ("401".into(), "Unauthorized".into()));
    let properties = fields(&at(&bytes, &[5, 1, 1, 2, 1, 31]));
    assert_eq!(text(&properties[0].1, &[2, 1, 26, 2, 1]), "#/components/schemas/A");
    assert_eq!(text(&properties[1].1, &[2, 1, 33, 3]), "TCP");
    assert_eq!(text(&properties[1].1, &[2, 1, 36, 2, 2]), "set\n");
    assert_eq!(text(&bytes, &[5, 7, 1, 2, 1, 1]), "apiKey");
}
