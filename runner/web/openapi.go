package web

import (
	"net/http"
	"reflect"
	"regexp"
	"strings"
	"time"

	"gpurun/state/schema"
)

// object is an object in the OpenAPI document.
type object = map[string]any

// Document returns the OpenAPI 3.0 document of the API.
func (s *Server) Document() object {
	schemas := object{}
	failed := object{"description": "Why the request failed.", "content": object{"application/json": object{"schema": shape(reflect.TypeFor[schema.Problems](), schemas)}}}
	paths := object{}
	for _, op := range operations() {
		o := object{"summary": op.says, "operationId": operationID(&op), "security": []any{object{"token": []string{}}}}
		if op.right == None {
			o["security"] = []any{}
		}
		var params []any
		for _, m := range regexp.MustCompile(`\{(\w+)\}`).FindAllStringSubmatch(op.path, -1) {
			params = append(params, object{"name": m[1], "in": "path", "required": true, "schema": object{"type": "string"}})
		}
		for _, p := range op.query {
			kind := shape(reflect.TypeOf(p.kind), schemas)
			if p.max > 0 {
				kind["minimum"], kind["maximum"] = 1, p.max
			}
			params = append(params, object{"name": p.name, "in": "query", "description": p.says, "required": op.right == None, "schema": kind})
		}
		if params != nil {
			o["parameters"] = params
		}
		content := object{op.media: object{"schema": object{"type": "string"}}}
		if op.answer != nil {
			content = object{"application/json": object{"schema": shape(reflect.TypeOf(op.answer), schemas)}}
		}
		answers := object{"200": object{"description": "OK", "content": content}, "default": failed}
		if op.media == plainText {
			answers["206"] = answers["200"]
		}
		o["responses"] = answers
		if op.body != nil {
			request := shape(reflect.TypeOf(op.body), schemas)
			o["requestBody"] = object{"required": true, "content": object{"application/json": object{"schema": request}}}
		}
		at, _ := paths[base+op.path].(object)
		if at == nil {
			at = object{}
			paths[base+op.path] = at
		}
		at[strings.ToLower(op.method)] = o
	}
	return object{
		"openapi": "3.0.3",
		"info": object{
			"title": "gpurun", "version": s.Version,
			"description": "The batches of one user and the GPUs of this host. Documents have the schema " + schema.Version + ": docs/reference/json.md describes every field.",
		},
		"paths": paths,
		"components": object{
			"schemas":         schemas,
			"securitySchemes": object{"token": object{"type": "http", "scheme": "bearer"}},
		},
	}
}

// operationID returns an ID such as getBatchesJobs.
func operationID(op *operation) string {
	id := strings.ToLower(op.method)
	for _, part := range strings.FieldsFunc(op.path, func(r rune) bool { return r == '/' || r == '.' || r == '_' }) {
		part = strings.Trim(part, "{}")
		id += strings.ToUpper(part[:1]) + part[1:]
	}
	if op.method == http.MethodGet && op.path == "" {
		return "getSession"
	}
	return id
}

// shape returns the schema of a type. Structs become components.
func shape(t reflect.Type, schemas object) object {
	if t == reflect.TypeFor[time.Time]() {
		return object{"type": "string", "format": "date-time"}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return nullable(shape(t.Elem(), schemas))
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Int, reflect.Int64, reflect.Uint64:
		return object{"type": "integer", "format": "int64"}
	case reflect.Float64:
		return object{"type": "number", "format": "double"}
	case reflect.String:
		return object{"type": "string"}
	case reflect.Slice:
		return object{"type": "array", "items": shape(t.Elem(), schemas), "nullable": true}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": shape(t.Elem(), schemas), "nullable": true}
	case reflect.Interface:
		return object{} // any value
	}
	ref := object{"$ref": "#/components/schemas/" + t.Name()}
	if schemas[t.Name()] != nil {
		return ref
	}
	fields, required := object{}, []string{}
	schemas[t.Name()] = object{} // breaks cycles
	addFields(t, fields, &required, schemas)
	o := object{"type": "object", "properties": fields}
	if len(required) > 0 && !strings.HasSuffix(t.PkgPath(), "/web") { // all fields of requests are optional
		o["required"] = required
	}
	schemas[t.Name()] = o
	return ref
}

// addFields adds the fields of a struct and its embedded structs.
func addFields(t reflect.Type, fields object, required *[]string, schemas object) {
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-" || !f.IsExported():
		case f.Anonymous && name == "":
			addFields(f.Type, fields, required, schemas)
		default:
			fields[name] = shape(f.Type, schemas)
			if options == "" {
				*required = append(*required, name)
			}
		}
	}
}

func nullable(o object) object {
	if o["$ref"] != nil {
		return object{"allOf": []any{o}, "nullable": true}
	}
	o["nullable"] = true
	return o
}
